"""Which nodes may be taken away, and how many at a time."""
