"""The annotations of a NodePool that keep consolidation from moving pods for little, or again and again."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache

from tenon.apis.duration import go_seconds

_DOLLARS = re.compile(r"\$?([0-9]{1,9}(\.[0-9]{1,9})?)")
_PERCENT = re.compile(r"([0-9]{1,3}(\.[0-9]{1,9})?)%")


@dataclass(frozen=True, slots=True)
class LeastSaving:
    """The annotation `tenon.sh/least-saving`: what a move must save at least (WSH-02). Both parts must hold."""

    dollars: float = 0.0
    """An hour."""
    share: float = 0.0
    """Of what the nodes that leave cost."""

    def of(self, cost: float) -> float:
        """Return what a move must save if the nodes that leave cost so much; both in dollars an hour."""
        return max(self.dollars, self.share * cost)


@lru_cache(maxsize=1024)
def read_least_saving(text: str) -> LeastSaving:
    """Read the annotation.

    Raises:
        ValueError: it cannot be read. The message is a clause for a user.
    """
    dollars: list[float] = []
    shares: list[float] = []
    for part in text.split(","):
        if match := _DOLLARS.fullmatch(part.strip()):
            dollars.append(float(match[1]))
        elif (match := _PERCENT.fullmatch(part.strip())) and float(match[1]) <= 100:
            shares.append(float(match[1]) / 100)
    if len(dollars) > 1 or len(shares) > 1 or len(dollars) + len(shares) != len(text.split(",")):
        raise ValueError(
            f"{ascii(text)[:80]} is neither dollars an hour nor a percentage up to 100%: write 0.05, 5%, or both as "
            "'0.05, 5%'"
        )
    return LeastSaving(sum(dollars), sum(shares))


@lru_cache(maxsize=1024)
def read_rest(text: str) -> timedelta:
    """Read the annotation `tenon.sh/rest-after-move`: how long consolidation leaves a node alone that it created.

    Raises:
        ValueError: it cannot be read. The message is a clause for a user.
    """
    seconds = go_seconds(text)
    if seconds is None or seconds < 0:
        raise ValueError(f"{ascii(text)[:80]} is not a duration: write one such as 45m or 2h30m")
    return timedelta(seconds=seconds)
