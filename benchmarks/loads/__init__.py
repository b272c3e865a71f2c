"""A public set of 60 loads, each with a proven lower bound and the best plan that is known for it."""
