"""Node repair: which faults of a node count, and what Tenon does about them."""
