"""Answers "why" about a node, a pod or a NodePool from the record, Temporal and Kubernetes together, live or gone.

Each source lacks something: Kubernetes forgets what is deleted, Temporal forgets after its retention time, and the
record knows only what ended or was decided. So each line of an answer names its source. `cli/why.py` reads and prints.
"""
