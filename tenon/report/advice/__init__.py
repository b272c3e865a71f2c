"""Sentences about what people can change, each with the figures that it is computed of.

To add a rule, write a function from `Question` to advice in a module here, and add it to `RULES` in `rules.py`. A rule
that says that a change frees a node asks `tenon.report.obstacles`, so that it says nothing that a decision contradicts.
"""
