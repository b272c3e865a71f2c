"""The ``tenon`` command."""
