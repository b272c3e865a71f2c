"""Reads what the record, Temporal and Kubernetes say of one object, for ``tenon why``.

No source is required: whichever does not answer says why, and the answer is made from the others.
"""
