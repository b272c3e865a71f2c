"""Controllers of garbage collection."""
