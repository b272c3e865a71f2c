"""What the leader reports of the cluster as metrics: its nodes, its pods, and the conditions of its objects."""
