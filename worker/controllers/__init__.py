"""Controllers: each watches kinds of the cluster cache and reconciles what changed. `base` is what they share."""
