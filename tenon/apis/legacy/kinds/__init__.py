"""The complete models of the kinds of Karpenter before v1, as in their CustomResourceDefinitions."""
