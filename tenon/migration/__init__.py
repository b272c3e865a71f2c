"""Moving a cluster between controllers of nodes: the switch and its way back, what behaves otherwise, node groups."""
