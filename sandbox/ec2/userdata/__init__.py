"""Reads user data as a machine's first boot does, with a reader for each family of images.

Nothing here uses the product's own code for user data: a mistake in what the product writes must show as a node that
does not join.
"""
