"""What `tenon convert --from-node-groups` reads: descriptions of node groups, from files or from AWS."""
