"""One object in each version of its API: v1, which is stored, and v1beta1, which older manifests and clients speak."""
