"""The live view of nodes: what it watches, how it looks, and what its keys do."""
