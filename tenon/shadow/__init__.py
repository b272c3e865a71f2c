"""What Tenon would do next to another Karpenter: a model cluster, comparisons of purchases, and what both cost."""
