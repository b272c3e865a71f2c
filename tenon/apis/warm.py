"""Warm nodes: stopped instances that a NodePool keeps, so that pods wait for a start and not for a launch."""

from __future__ import annotations

from collections.abc import Mapping

from tenon.apis import labels

MAX_WARM = 1000
"""The most warm nodes that a NodePool may keep."""

FILLING = "filling"
"""The node starts for the first time. It is stopped once it is initialized."""
STOPPED = "stopped"
"""EC2 was asked to stop the instance."""
STARTING = "starting"
"""A plan has put pods on the node. It becomes an ordinary node once it has booted."""
STATES = (FILLING, STOPPED, STARTING)


def read_warm(text: str) -> int:
    """Read the annotation `tenon.sh/warm` of a NodePool.

    Raises:
        ValueError: it cannot be read. The message is a clause for a user.
    """
    if text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_WARM)) and int(text) <= MAX_WARM:
        return int(text)
    raise ValueError(f"{ascii(text)[:80]} is not a number of warm nodes: write a whole number from 0 to {MAX_WARM}")


def is_unreadable(annotations: Mapping[str, str]) -> bool:
    """Return whether a NodePool has the annotation and it cannot be read, so that its owner's wish is not known."""
    try:
        read_warm(annotations.get(labels.WARM, "0"))
    except ValueError:
        return True
    return False


def warm_count(annotations: Mapping[str, str]) -> int:
    """Return how many warm nodes a NodePool with these annotations keeps; 0 if that cannot be read."""
    try:
        return read_warm(annotations[labels.WARM])
    except (KeyError, ValueError):  # the NodePool's condition ValidationSucceeded says why
        return 0
