"""What Kubernetes objects mean: every rule about pods, nodes, volumes and claims is written here once.

The cache decodes bytes into records, activities read the JSON of a few objects; both use the same rules. The rules are
pure: they know neither the scheduling engine nor the cluster.
"""
