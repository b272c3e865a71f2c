"""Chooses whole packings of nodes with a linear program, and improves them."""
