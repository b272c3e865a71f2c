"""The annotation of a NodePool that limits what its nodes cost an hour."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tenon.apis import labels

MAX_DOLLARS = 1_000_000
"""The highest limit, in dollars an hour."""
MICRO_DOLLARS = 1_000_000
"""In a dollar. Costs are counted in whole micro-dollars, so that sums and comparisons are exact."""

_DOLLARS = re.compile(r"\$?(?P<whole>[0-9]{1,7})(\.(?P<fraction>[0-9]{1,6}))?")


def read_max_hourly_cost(text: str) -> int:
    """Read the annotation `tenon.sh/max-hourly-cost`. Return micro-dollars an hour.

    Raises:
        ValueError: it cannot be read. The message is a clause for a user.
    """
    match = _DOLLARS.fullmatch(text)
    amount = 0
    if match is not None:
        amount = int(match["whole"]) * MICRO_DOLLARS + int((match["fraction"] or "").ljust(6, "0"))
    if match is None or amount > MAX_DOLLARS * MICRO_DOLLARS:
        raise ValueError(
            f"{ascii(text)[:80]} is not an amount: write dollars an hour from 0 to {MAX_DOLLARS}, such as 40 or 2.5"
        )
    return amount


def max_hourly_cost(annotations: Mapping[str, str]) -> int | None:
    """Return the limit of a NodePool with these annotations, in micro-dollars an hour; None if it has none.

    One that cannot be read allows nothing: a typing mistake must not cost nodes.
    """
    text = annotations.get(labels.MAX_HOURLY_COST)
    if text is None:
        return None
    try:
        return read_max_hourly_cost(text)
    except ValueError:  # the NodePool's condition ValidationSucceeded says why
        return 0
