"""The kinds of Karpenter before v1, whole, as their CustomResourceDefinitions have them."""
