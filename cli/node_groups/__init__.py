"""What `tenon drain-node-group` does: the group in AWS, its nodes in Kubernetes, and one pass after the other."""
