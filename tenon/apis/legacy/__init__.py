"""Converts manifests of Karpenter before v1 to equivalent v1 objects, with notes on what changed."""
