"""Controllers of objects of Karpenter's APIs before v1beta1."""
