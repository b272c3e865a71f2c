"""Divides the nodes of a large cluster into turns, so that consolidation looks at each of them in bounded time.

A pass over thousands of nodes takes so long that its commands are late, or that it reaches its time limit before the
last nodes. So a pass considers a part of them, the best of each NodePool first, and the next pass goes on after these.
A round ends when every NodePool's last node was looked at. The NodePools share each turn, so a large one delays no
other.

The cursor only says which node was the last in the ranking, by NodePool, so it stays small. A node whose rank changes
in the middle of a round, because pods came or went, may have to wait for the next round.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tenon.disruption.nodes import NodeDetail
from tenon.evolve import evolve
from tenon.messages.disruption import LastConsidered, PassCursor

Rank: TypeAlias = tuple[float, str]

MOST = 1_000
"""How many nodes a pass considers."""
LEAST = 10
"""As few as this after passes that ran out of time. The cursor moves on even if these took too long as well."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The nodes of one pass."""

    claims: tuple[str, ...]
    """NodeClaims, best first."""
    most: int
    """How many it could have had."""
    begins: Mapping[str, LastConsidered]
    """After which nodes it begins, as `PassCursor.last`."""
    ends: PassCursor
    """The cursor of the next pass if this one looks at all of its nodes."""

    def following(self, *, expired: bool = False, failed: bool = False) -> PassCursor:
        """Return the cursor of the next pass.

        If this one was not complete, the next one begins with the same nodes, but has fewer of them.

        Args:
            expired: the time was over before all nodes were looked at.
            failed: the search failed. The number of nodes then falls to one, so that only the node on which the search
                fails is left out.
        """
        if not expired and not failed:
            return self.ends
        least = 1 if failed else LEAST
        fewer = max(least, min(self.most, len(self.claims)) // 2)
        if len(self.claims) <= least:
            return evolve(self.ends, most=fewer)
        return PassCursor(last=dict(self.begins), more=True, most=fewer)


def by_price_per_cost(claims: Iterable[str], details: Mapping[str, NodeDetail]) -> list[str]:
    """Sort NodeClaims by price per rescheduling cost, highest first, then by name (DIS-24)."""
    return sorted(claims, key=lambda claim: _rank(claim, details[claim]))


def next_turn(pool_of: Mapping[str, str], details: Mapping[str, NodeDetail], cursor: PassCursor) -> Turn:
    """Return the nodes to look at now.

    Args:
        pool_of: the candidates, each with its NodePool.
        details: what is known of their nodes.
        cursor: where the last pass ended.
    """
    most = min(cursor.most, MOST) or MOST
    last = cursor.last
    waiting = _waiting(pool_of, details, last)
    if not waiting:
        # a new round, except for NodePools without candidates, such as those whose budgets allow nothing now
        last = _without(last, pool_of.values())
        waiting = _waiting(pool_of, details, last)
    # the first of every NodePool, then the second of each, ...
    in_turns = sorted((place, rank) for ranks in waiting.values() for place, rank in enumerate(ranks))
    chosen_ranks = [rank for _, rank in in_turns[:most]]
    more = len(chosen_ranks) < len(in_turns)
    ends = dict(last if more else _without(last, pool_of.values()))
    if more:
        for price_per_cost, claim in chosen_ranks:
            ends[pool_of[claim]] = LastConsidered(price_per_cost=-price_per_cost, claim=claim)
    grown = most * 2 if most * 2 < MOST else 0
    claims = tuple(claim for _, claim in sorted(chosen_ranks))
    return Turn(claims, most, last, PassCursor(last=ends, more=more, most=grown))


def known_pools(cursor: PassCursor, pools: Collection[str]) -> PassCursor:
    """Return the cursor without NodePools that exist no more."""
    return evolve(cursor, last={pool: rank for pool, rank in cursor.last.items() if pool in pools})


def _without(last: Mapping[str, LastConsidered], pools: Iterable[str]) -> dict[str, LastConsidered]:
    left_out = set(pools)
    return {pool: rank for pool, rank in last.items() if pool not in left_out}


def _waiting(
    pool_of: Mapping[str, str], details: Mapping[str, NodeDetail], last: Mapping[str, LastConsidered]
) -> dict[str, list[Rank]]:
    """Return the candidates of each NodePool after the last one, best first."""
    ranks_by_pool: dict[str, list[Rank]] = defaultdict(list)
    for claim, pool in pool_of.items():
        rank = _rank(claim, details[claim])
        if pool not in last or rank > (-last[pool].price_per_cost, last[pool].claim):
            ranks_by_pool[pool].append(rank)
    return {pool: sorted(ranks) for pool, ranks in ranks_by_pool.items()}


def _rank(claim: str, detail: NodeDetail) -> Rank:
    return -detail.price / detail.cost, claim
