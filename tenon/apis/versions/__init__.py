"""Converts objects between API versions: v1, the storage version, and v1beta1, for older manifests and clients."""
