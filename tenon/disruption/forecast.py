"""What consolidation would do next, if nothing changes until then: which waits end with time, and what follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from tenon.apis.reasons import Reason
from tenon.disruption.model import Command, Situation
from tenon.disruption.rules.blockers import free_at
from tenon.disruption.rules.budgets import opens_at
from tenon.disruption.rules.pool_budgets import Members, gone_first, members_of, unavailable_nodes
from tenon.disruption.rules.windows import opening_of

LOOKS = 4
"""How many times are tried until one has a command. Each is a whole search."""


@dataclass(frozen=True, slots=True)
class Look:
    """A time at which a wait is over, and what consolidation would do then."""

    at: datetime
    commands: tuple[Command, ...]
    is_latest: bool = False
    """Whether earlier times were left out, at which consolidation may act already."""


def is_consolidation(command: Command) -> bool:
    """Whether the command removes nodes because they are empty or underutilized."""
    return command.reason.traits.is_consolidation


def next_consolidation(situation: Situation, decide: Callable[[Situation], tuple[Command, ...]]) -> list[Look]:
    """Return the next times at which a wait is over, up to the first at which consolidation would do something.

    Args:
        situation: the cluster as the commands of now leave it.
        decide: returns commands in a situation, of consolidation and of what goes before it.
    """
    looks: list[Look] = []
    times = sorted(set(_ends_of_waits(situation)))
    leaves_out = len(times) > LOOKS
    if leaves_out:  # the last time is that at which most waits are over
        times = [*times[: LOOKS - 1], times[-1]]
    for at in times:
        commands = tuple(filter(is_consolidation, decide(replace(situation, now=at))))
        looks.append(Look(at, commands, leaves_out and at == times[-1]))
        if commands:
            break
    return looks


def _ends_of_waits(situation: Situation) -> Iterator[datetime]:
    """When time alone frees a node for consolidation, or when budgets or windows let a NodePool lose one."""
    members, gone_claims = members_of(situation), gone_first(situation)
    waiting: set[tuple[str, Reason]] = set()
    for node in situation.nodes:
        reason = Reason.EMPTY if node.empty else Reason.UNDERUTILIZED
        at = free_at(node, situation, reason)
        if at is None:
            continue
        waiting.add((node.pool, reason))
        if at > situation.now:
            yield at
    for pool, reason in waiting:
        policy = situation.policies[pool]
        unavailable = len(unavailable_nodes(situation, pool, reason)) + list(gone_claims.values()).count(pool)
        opens = opens_at(
            policy.budgets,
            reason,
            total=members.get(pool, Members()).total,
            unavailable=unavailable,
            now=situation.now,
        )
        for opening in (opens, opening_of(policy.windows, reason, situation.now)):
            if opening is not None and opening > situation.now:
                yield opening
