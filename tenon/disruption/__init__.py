"""Decides which nodes may be removed, and how many at a time."""
