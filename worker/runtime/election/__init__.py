"""Which replica leads, and whether another controller manages the cluster's nodes."""
