"""The nodes of a cluster as people watch them: rows, totals, order, read from Kubernetes objects and prices alone.

`tenon top` shows it. Temporal is not needed, so that the view also works while Temporal is away.
"""
