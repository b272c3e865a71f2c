"""Objects of Karpenter before v1beta1 in a live cluster: read where their CRDs are, and acted upon by v1 objects."""
