"""Manifests of Karpenter before v1 as the v1 objects that mean the same, each with notes on what changed."""
