"""The annotations of a NodePool that say which nodes it should buy where several would do. None keeps a pod waiting."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tenon.apis import labels

DEFAULT_PREMIUM = 0.05
"""How much dearer a choice may be for a goal that is only turned on."""
_PERCENT = re.compile(r"(?P<number>[0-9]{1,3}(\.[0-9]{1,9})?)%")


@dataclass(frozen=True, slots=True)
class Goals:
    """What the nodes of a NodePool should be. A goal that is None is not followed."""

    spot_share: float | None = None
    """The share of its vCPUs on spot capacity, from 0 to 1."""
    zone_balance: float | None = None
    """How much dearer, from 0 to 1, a node may be in a zone where the NodePool has fewer vCPUs."""
    newer_generations: float | None = None
    """How much dearer, from 0 to 1, a node of a newer generation may be."""
    placement_scores: float | None = None
    """How much dearer, from 0 to 1, a spot node may be in a zone with a higher Spot placement score."""


def read_spot_share(text: str) -> float:
    """Read the annotation `tenon.sh/spot-share`.

    Raises:
        ValueError: it cannot be read. The message is a clause for a user.
    """
    share = _share(text)
    if share is None:
        raise ValueError(f"{ascii(text)[:80]} is not a percentage: write one from 0% to 100%, such as 70%")
    return share


def read_premium(text: str) -> float | None:
    """Read how much dearer a choice may be; None if the goal is turned off.

    Raises:
        ValueError: it cannot be read. The message is a clause for a user.
    """
    if text in ("true", "false"):
        return DEFAULT_PREMIUM if text == "true" else None
    share = _share(text)
    if share is None:
        raise ValueError(
            f"{ascii(text)[:80]} is neither true, false nor a percentage: write how much dearer a node may be, from 0% "
            "to 100%, or 'true' for 5%"
        )
    return share


def goals_of(annotations: Mapping[str, str]) -> Goals | None:
    """Return the goals of a NodePool with these annotations; None if it has none. One that cannot be read is none."""
    goals = Goals(
        _read(annotations, labels.SPOT_SHARE, read_spot_share),
        _read(annotations, labels.ZONE_BALANCE, read_premium),
        _read(annotations, labels.NEWER_GENERATIONS, read_premium),
        _read(annotations, labels.SPOT_PLACEMENT_SCORES, read_premium),
    )
    return None if goals == Goals() else goals


def _read(annotations: Mapping[str, str], key: str, read: Callable[[str], float | None]) -> float | None:
    try:
        return read(annotations[key])
    except (KeyError, ValueError):  # the NodePool's condition ValidationSucceeded says why
        return None


def _share(text: str) -> float | None:
    match = _PERCENT.fullmatch(text)
    share = float(match["number"]) / 100 if match is not None else None
    return None if share is None or share > 1 else share
