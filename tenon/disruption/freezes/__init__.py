"""Times in which the nodes of some NodePools are not disrupted."""
