"""Instance types: their resources, labels, offerings, and what was learned from their nodes."""
