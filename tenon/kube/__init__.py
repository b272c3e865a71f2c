"""What Kubernetes objects mean, once for everybody who reads them.

Rules here are pure: they take objects, or the records made of them, and know neither the engine nor the cluster.
"""
