"""The live view of `tenon top`: what it watches, how it looks, and what its keys do."""
