"""Serves the objects of Karpenter's APIs before v1beta1: reads them where their CRDs exist, and creates v1 objects."""
