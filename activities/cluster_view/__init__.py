"""What planning and disruption ask of the cluster cache, and how often."""
