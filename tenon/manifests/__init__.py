"""Manifests as people keep them in files: where each field stands, what is wrong with it, what it is called today."""
