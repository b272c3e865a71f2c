"""Controllers of NodeClaims, Nodes and their workflows."""
