"""The nodes that a cluster has, and the room on them."""
