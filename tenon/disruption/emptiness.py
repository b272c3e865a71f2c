"""Which nodes have been empty long enough to be told so, and when they go.

A node hears of its emptiness once half of its time to live has passed, so that short gaps between two pods cost no
message; the rest of the time its own workflow waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tenon.disruption.budgets import Budget, allowed

REASON = "Empty"


@dataclass(frozen=True, slots=True)
class PoolPolicy:
    """What a NodePool says of emptiness; ``consolidate_after`` is None for Never."""

    name: str
    consolidate_after: timedelta | None
    budgets: tuple[Budget, ...] = (Budget(),)


@dataclass(frozen=True, slots=True)
class ManagedNode:
    """A node as disruption sees it. ``quiet_since`` is the last pod event (or initialization); None: never seen."""

    claim: str
    uid: str
    pool: str
    initialized: bool
    ready: bool
    leaving: bool
    empty: bool
    protected: bool
    quiet_since: datetime | None
    node: str = ""
    """The name of its Node."""
    terminating: bool = False
    """Its instance is being ended; it is no part of what budgets are counted from (DIS-50)."""


@dataclass(frozen=True, slots=True)
class EmptyNode:
    """An empty node and when its time to live ends."""

    node: ManagedNode
    since: datetime
    due: datetime


def empty_nodes(
    nodes: Sequence[ManagedNode],
    policies: Mapping[str, PoolPolicy],
    *,
    under_command: frozenset[str],
    now: datetime,
) -> tuple[list[EmptyNode], datetime | None]:
    """The nodes to tell of their emptiness now, within budgets, and when to look again (None: on the next change).

    Longest-empty nodes first, then by name. ``under_command`` are claims that a command is already taking away.
    """
    found: list[EmptyNode] = []
    look_again: datetime | None = None
    for node in sorted(nodes, key=lambda n: n.claim):
        policy = policies.get(node.pool)
        if policy is None or policy.consolidate_after is None or node.claim in under_command:
            continue
        if not node.initialized or node.leaving or node.protected or not node.empty or node.quiet_since is None:
            continue
        tell = node.quiet_since + policy.consolidate_after / 2
        if tell <= now:
            found.append(EmptyNode(node, node.quiet_since, node.quiet_since + policy.consolidate_after))
        else:
            look_again = tell if look_again is None else min(look_again, tell)
    found.sort(key=lambda e: (e.since, e.node.claim))
    chosen: list[EmptyNode] = []
    room: dict[str, int] = {}
    for empty in found:
        pool = empty.node.pool
        if pool not in room:
            room[pool] = _room(pool, nodes, policies[pool], under_command, now)
        if room[pool] > 0:
            room[pool] -= 1
            chosen.append(empty)
    return chosen, look_again


def _room(
    pool: str, nodes: Sequence[ManagedNode], policy: PoolPolicy, under_command: frozenset[str], now: datetime
) -> int:
    members = [node for node in nodes if node.pool == pool and node.initialized and not node.terminating]
    unavailable = sum(node.leaving or not node.ready or node.claim in under_command for node in members)
    return allowed(policy.budgets, REASON, total=len(members), unavailable=unavailable, now=now)
