"""What rollouts read from and write to the cluster."""
