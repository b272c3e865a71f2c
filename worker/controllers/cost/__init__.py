"""Who causes the cost of nodes, while this replica leads."""
