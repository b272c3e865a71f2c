"""Compares Tenon with upstream Karpenter, and with no autoscaler at all, in the same kind of sandbox."""
