"""Decides what belongs to a cluster that ends, in which order it ends, and what the report says."""
