"""DECIDE: everything Tenon knows and chooses, as pure functions over plain data.

Nothing below this package reads a clock, a socket, a file of the user's or a random number.
"""

__version__ = "0.1.0"
"""The version of all that a release has. pyproject.toml reads it here; a test holds charts and manifests to it."""
