"""What consolidation commands save in fact, compared with what they were started for (WSH-01, WSH-02).

A NodePool whose last commands saved clearly less than predicted is slowed down: its commands run one at a time, with a
pause after each that grows. One command that pays ends that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

from tenon.apis.reasons import traits_of
from tenon.kube.timestamps import time_text
from tenon.messages.disruption import (
    DisruptionCandidate,
    DisruptionCommand,
    MeasuredSaving,
    OpenCommand,
    PoolSavings,
)
from tenon.money import per_hour, price_text

FELL_SHORT = 0.5
"""A command that saves less than this share of the prediction fell short."""
LEAST_COUNTED = 0.001
"""What a command must have been to save to be judged, in dollars an hour. One that only frees places in capacity
reservations has a prediction far below it: a place counts as a ten-millionth of its price.
"""
TOLERATED = 1
"""How many commands in a row may fall short before the NodePool is slowed down."""
FIRST_PAUSE = timedelta(minutes=10)
"""The pause after the first command that is not tolerated. It doubles with each further one."""
LONGEST_PAUSE = timedelta(hours=2)
REMEMBERED = timedelta(days=1)
"""After this time without another command that fell short, the NodePool is no longer slowed down."""


def measured(
    command: DisruptionCommand, claims: Collection[str], prices: Mapping[str, float]
) -> dict[str, MeasuredSaving] | None:
    """Return what a command saves an hour, by NodePool; None if a price is not known.

    If nodes of several NodePools leave, each gets a share in proportion to the price of its nodes, as with the policy
    Balanced (DIS-44).

    Args:
        command: the command, which has been carried out.
        claims: the NodeClaims that leave. A candidate that stays saves nothing, but the replacements came.
        prices: by NodeClaim of the replacements, dollars an hour of the offering that was launched; 0 if unknown.
    """
    candidates = [candidate for candidate in command.candidates if candidate.claim in claims]
    prices_of_replacements = [prices.get(candidate.name, 0.0) for candidate in command.replacements]
    has_prices = min([*prices_of_replacements, *(candidate.price for candidate in command.candidates)], default=0.0) > 0
    if not candidates or not has_prices:
        return None
    reached = _price(candidates) - sum(prices_of_replacements)
    whole = _price(command.candidates)
    return {
        pool: MeasuredSaving(predicted=round(command.predicted * share, 6), reached=round(reached * share, 6))
        for pool in sorted({candidate.pool for candidate in command.candidates})
        for share in [_price(candidate for candidate in command.candidates if candidate.pool == pool) / whole]
    }


def _price(candidates: Iterable[DisruptionCandidate]) -> float:
    return sum(candidate.price for candidate in candidates)


def total(savings: Iterable[MeasuredSaving]) -> MeasuredSaving:
    """Return the sum."""
    all_savings = list(savings)
    return MeasuredSaving(
        predicted=round(sum(saving.predicted for saving in all_savings), 6),
        reached=round(sum(saving.reached for saving in all_savings), 6),
    )


def remember(
    before: PoolSavings | None, saving: MeasuredSaving, *, started: datetime, now: datetime
) -> PoolSavings | None:
    """Return what to remember of a NodePool after a command; None if its consolidation pays.

    ``started``: when the command started. Commands that ran at the same time as one that is remembered count as one
    with it, because it was not known yet that they would fall short.
    """
    if saving.predicted < LEAST_COUNTED:
        return before
    if saving.reached >= saving.predicted * FELL_SHORT:
        return None
    if before is None or is_forgotten(before, now):
        return PoolSavings(short=1, predicted=saving.predicted, reached=saving.reached, at=now)
    return PoolSavings(
        short=before.short + (started >= before.at),
        predicted=round(before.predicted + saving.predicted, 6),
        reached=round(before.reached + saving.reached, 6),
        at=now if started >= before.at else before.at,
    )


def is_forgotten(savings: PoolSavings, now: datetime) -> bool:
    """Return whether the last command that fell short is so long ago that it does not matter any more."""
    return now - savings.at >= REMEMBERED


def is_slowed(savings: PoolSavings, now: datetime) -> bool:
    """Return whether the NodePool is slowed down."""
    return savings.short > TOLERATED and not is_forgotten(savings, now)


def waits_until(savings: PoolSavings) -> datetime:
    """Return when the next consolidation command of a NodePool that is slowed down may start."""
    doublings = min(savings.short - TOLERATED - 1, 10)
    return savings.at + min(LONGEST_PAUSE, FIRST_PAUSE * (1 << doublings))


def sentence(savings: PoolSavings) -> str:
    """Say in a sentence without a period why a NodePool is slowed down, and until when it waits."""
    return (
        f"the last consolidation commands saved {per_hour(savings.reached)} instead of "
        f"{price_text(savings.predicted)}, so they run one at a time, and the next one starts at "
        f"{time_text(waits_until(savings))} at the earliest"
    )


def slowed_pools(
    savings: Mapping[str, PoolSavings], open_commands: Mapping[str, OpenCommand], now: datetime
) -> dict[str, str]:
    """Return the NodePools that are slowed down, each with why it must wait now; empty if it may start one command."""
    busy = {
        entry.pool
        for entry in open_commands.values()
        if traits_of(entry.reason).counts_savings and not (entry.postponed or entry.awaits_approval)
    }
    slowed = {}
    for pool, saving in savings.items():
        if is_slowed(saving, now):
            waits = pool in busy or now < waits_until(saving)
            slowed[pool] = sentence(saving) if waits else ""
    return slowed
