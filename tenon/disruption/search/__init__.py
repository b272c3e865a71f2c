"""The search for moves: nodes whose pods run cheaper elsewhere."""
