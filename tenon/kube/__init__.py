"""The rules of Kubernetes objects: everything about pods, nodes, volumes and claims is defined once, here.

The cache decodes bytes into records, and activities read the JSON of a few objects. Both use the same rules. The rules
are pure: they depend on neither the scheduling engine nor the cluster.
"""
