"""What Tenon would do beside another Karpenter: a model cluster, comparisons of purchases, and what both cost."""
