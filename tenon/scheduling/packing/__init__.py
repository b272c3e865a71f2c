"""Fills new nodes with pods, one node after another: first-fit, balanced and greedy."""
