"""Controllers: each watches kinds of the cluster cache and reconciles what changed."""
