"""The pictures of ``tenon schedule``."""
