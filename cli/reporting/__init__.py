"""What `tenon report` reads: the cluster, and the record."""
