"""Hides grpcio from a worker that has this folder on its PYTHONPATH.

The image does not contain grpcio; only tests install it. Where it is installed, Temporal's SDK loads it into every
process, which costs about 9 MB each.
"""

raise ImportError("The worker of a benchmark runs without grpcio, as in the image.")
