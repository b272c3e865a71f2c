"""The price an hour of a NodePool's nodes, as its status says it.

Prices of spot change all the time, and each write of a status wakes everything that watches NodePools. So the status
changes only if the price has changed visibly.
"""

from __future__ import annotations

from contextlib import suppress

TOLERANCE = 0.01
"""Changes up to this share of the price are not written."""


def status_price(before: str, price: float) -> str:
    """Return the price in dollars an hour for the status.

    Args:
        before: what the status says now; empty if it says nothing.
        price: the sum of the hourly prices of the NodePool's nodes, in dollars.
    """
    with suppress(ValueError):
        if abs(price - float(before)) <= TOLERANCE * price:
            return before
    return f"{price:.4f}"
