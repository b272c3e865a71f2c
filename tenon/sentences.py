"""How many things there are, and the first few of their names, in the sentences that people read."""

from __future__ import annotations

from collections.abc import Sequence


def counted(number: int, noun: str) -> str:
    """Return the number with its noun: '1 pod', '2 pods'."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def first_few(names: Sequence[str], most: int) -> str:
    """Return the first names, and how many others there are: 'a, b and 3 more'."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
