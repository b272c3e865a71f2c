"""Annotations of a NodePool that are ``true`` or ``false``. YAML must quote them, which users forget."""

from __future__ import annotations


def read_boolean(text: str) -> bool:
    """Read the value of an annotation.

    Raises:
        ValueError: it cannot be read. The message is a clause for a user.
    """
    if text not in ("true", "false"):
        raise ValueError(f"{ascii(text)[:80]} is neither true nor false: write 'true' or 'false', in quotes")
    return text == "true"
