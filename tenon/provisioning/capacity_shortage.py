"""A capacity shortage: what EC2 lacks for pods that still wait, and what the condition of their NodePool says.

Each refused NodeClaim ends at once, and the next plan buys other offerings. The reason is in the events of NodeClaims
that are gone, so pods and NodePools repeat it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tenon.apis import labels
from tenon.apis.common import Condition
from tenon.apis.conditions import get_condition, set_condition
from tenon.apis.nodepool import CAPACITY_AVAILABLE
from tenon.apis.reasons import Reason
from tenon.ec2.refusals.backoff import FIRST_PROBE_PAUSE, MAX_PROBE_PAUSE
from tenon.ec2.refusals.unavailable import UNAVAILABLE_OFFERINGS_TTL, concerns_types
from tenon.kube.offerings import QUOTA, OfferingKey
from tenon.kube.timestamps import time_text
from tenon.sentences import counted, lasting

REPORTED_FROM = 2
"""How many NodeClaims EC2 refuses in a row before pods and NodePools report it. A single one is part of daily work."""
LASTS = UNAVAILABLE_OFFERINGS_TTL + timedelta(minutes=2)
"""A shortage counts as over if no NodeClaim was refused for so long. Pods that wait try again within this time."""
_NO_LAUNCH_SINCE = "No NodeClaim launched since EC2 last lacked capacity for one"


@dataclass(frozen=True, slots=True)
class TriedLaunch:
    """What a NodeClaim of a plan asks EC2 for."""

    pool: str
    cheapest: OfferingKey
    instance_types: Sequence[str]
    """Cheapest first."""


@dataclass(frozen=True, slots=True)
class PoolShortage:
    """NodeClaims of a NodePool that EC2 had no capacity for, since the last launch that succeeded."""

    refused: int
    since: datetime
    last: datetime
    message: str
    """From when the number of refused NodeClaims last doubled, so that the status does not change with each of them.

    It stays for minutes, so it names no time to come. Pods and `tenon node list --blocked` say when the next one is.
    """


def is_reported(refused: int) -> bool:
    """Whether to report after so many refused NodeClaims: after the second, and when the number has doubled."""
    return refused >= REPORTED_FROM and refused & (refused - 1) == 0


def what_ec2_lacks(launches: Sequence[TriedLaunch], refused: Collection[OfferingKey]) -> str:
    """Say which offerings of these refused launches EC2 has no capacity for.

    Args:
        launches: the refused launches, oldest first.
        refused: the offerings that EC2 refused recently.

    Returns:
        A sentence without a period; empty if EC2 refused none of their offerings.
    """
    types = frozenset(name for launch in launches for name in launch.instance_types)
    capacity_types = {launch.cheapest.capacity_type for launch in launches} - {labels.RESERVED}
    keys = [key for key in refused if key.capacity_type in capacity_types and concerns_types(key, types)]
    if not launches or not keys:
        return ""
    parts = [
        _lacking(name, own)
        for name in sorted(capacity_types)
        if (own := [key for key in keys if key.capacity_type == name])
    ]
    return f"EC2 has {' and '.join(parts)} ({launches[0].cheapest.instance_type} first)"


def _lacking(capacity_type: str, keys: Collection[OfferingKey]) -> str:
    """What EC2 lacks of one capacity type."""
    if any(key == key.whole_capacity_type for key in keys):
        return f"no {capacity_type} capacity at all"
    offerings = [key for key in keys if key.scope != QUOTA]
    if not offerings:
        return f"no {capacity_type} vCPU quota left"
    return f"no {capacity_type} capacity for {counted(len(offerings), 'offering')} tried"


def refused_again(
    before: PoolShortage | None, launches: Sequence[TriedLaunch], unavailable: Collection[OfferingKey], now: datetime
) -> PoolShortage:
    """Return the shortage of a NodePool after EC2 refused these launches of it."""
    if before is None or is_over(before, now):
        before = PoolShortage(0, now, now, "")
    refused = before.refused + len(launches)
    if refused < REPORTED_FROM or refused.bit_length() == before.refused.bit_length():
        return replace(before, refused=refused, last=now)
    message = (
        f"{what_ec2_lacks(launches, unavailable)}; {refused} NodeClaims found no capacity "
        f"between {time_text(before.since)} and {time_text(now)}; while pods wait for these, Tenon asks EC2 "
        f"again {lasting(FIRST_PROBE_PAUSE)} to {lasting(MAX_PROBE_PAUSE)} after each refusal"
    )
    return PoolShortage(refused, before.since, now, message)


def is_over(shortage: PoolShortage, now: datetime) -> bool:
    """True if no NodeClaim was refused for a while."""
    return now - shortage.last > LASTS


def with_capacity(
    conditions: Sequence[Condition],
    shortage: PoolShortage | None,
    launched: datetime | None,
    *,
    now: datetime,
    observed_generation: int | None,
    sees_all: bool = True,
) -> list[Condition]:
    """Set the condition that says whether EC2 has capacity for the pool's NodeClaims.

    A pool that never lacked capacity does not get it. Shortages are in memory, so a new leader keeps the condition
    False that it finds until a NodeClaim launches or no shortage can last any more.

    Args:
        conditions: the conditions so far.
        shortage: the shortage that lasts, if there is one.
        launched: when a NodeClaim of the pool last launched, if known.
        now: the current time.
        observed_generation: the generation of the NodePool.
        sees_all: whether ``shortage`` would be stated if one lasts; False for a new leader.
    """
    if shortage is not None and shortage.message:
        reason = Reason.INSUFFICIENT_CAPACITY.camel_case
        return set_condition(
            conditions,
            CAPACITY_AVAILABLE,
            "False",
            now=now,
            reason=reason,
            message=shortage.message[:1000],
            observed_generation=observed_generation,
        )
    present = get_condition(conditions, CAPACITY_AVAILABLE)
    if present is None or present.status == "True":
        return list(conditions)
    since = present.last_transition_time
    succeeded = launched is not None and (since is None or launched >= since)
    if present.status == "False" and not succeeded and (shortage is not None or not sees_all):
        return list(conditions)
    return set_condition(
        conditions,
        CAPACITY_AVAILABLE,
        "True" if succeeded else "Unknown",
        now=now,
        message="" if succeeded else _NO_LAUNCH_SINCE,
        observed_generation=observed_generation,
    )
