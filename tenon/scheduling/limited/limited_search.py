"""Chooses whole nodes where limits may bind: by their sizes, or in several orders, and then a few at a time again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from random import Random
from typing import NamedTuple

import numpy as np

from tenon.scheduling.column_generation.columns import NodePacking, NoSolutionError, Solution
from tenon.scheduling.deadline import Expired
from tenon.scheduling.limited.limited_columns import LimitedMaster
from tenon.scheduling.limited.limited_sizes import sized_nodes

DIVES = ((), (1,), (0, 1))
"""Which packings come first when nodes are chosen for the whole load (`LimitedMaster.dive`)."""
TRIES = 40
"""How often a few nodes are chosen again."""
ENOUGH_TRIES = 12
"""How often at least, unless the nodes are good enough."""
SIZES = (2, 3, 2, 4)
"""How many nodes, in turn."""
TURNS = (0, 0, 1, 2)
"""Which packings may come first for these nodes."""
ROUNDS = 2
"""How often packings are added for the pods of these nodes."""

Level = tuple[bool, int]
"""Sort key: pods first, then the room that buffers ask for; the highest priority first."""


class Rank(NamedTuple):
    """Sort key of nodes, the best first."""

    unplaced: int
    """Pods without a place."""
    levels: list[tuple[Level, int]]
    """How many of each level."""
    cost: float


def best_nodes(
    master: LimitedMaster,
    solution: Solution,
    start: Sequence[NodePacking],
    rank: Callable[[Sequence[NodePacking]], Rank],
    is_possible: Callable[[Sequence[NodePacking]], bool],
    is_close: Callable[[Rank], bool],
    is_fair: Callable[[Rank], bool],
    is_enough: Callable[[Rank], bool],
    expired: Expired,
) -> list[NodePacking]:
    """Return the best nodes that were found, or those of the ``start``.

    Args:
        master: the program for all pods.
        solution: of the program.
        start: nodes for the same pods.
        rank: compares nodes.
        is_possible: whether nodes can have all of their pods.
        is_close: whether nodes of this rank are good enough if they were chosen by their sizes.
        is_fair: whether nodes of this rank are not worth many tries.
        is_enough: whether they are worth none.
        expired: whether there is no more time.
    """
    best, best_rank = list(start), rank(start)
    absent = max(master.rations.forced_in_all, int(master.rations.forced.sum()))
    most = best_rank.cost if best_rank.unplaced <= absent else inf
    for sized in sized_nodes(master, master.node_cost(solution), most):
        if (own := rank(sized)) < best_rank and is_possible(sized):
            best, best_rank = sized, own
            if is_close(best_rank):
                return best
            break
    for turns in DIVES:
        nodes = master.dive(solution, expired, turns)
        if nodes is not None and (own := rank(nodes)) < best_rank:
            best, best_rank = nodes, own
        if is_enough(best_rank):
            return best
    draw = Random(len(best))  # the same problem must give the same plan
    tried: set[tuple[bytes, tuple[int, ...]]] = set()
    for number in range(TRIES):
        if expired() or len(best) < 2 or (number >= ENOUGH_TRIES and is_fair(best_rank)):
            break
        order = draw.sample(range(len(best)), len(best))
        size, turns = SIZES[number % len(SIZES)], (draw.choice(TURNS), draw.choice(TURNS))
        parts, others = [best[place] for place in order[:size]], [best[place] for place in sorted(order[size:])]
        key = np.sum([packing.pods for packing in parts], axis=0).tobytes(), turns
        if key in tried:
            continue
        tried.add(key)
        nodes = _chosen_again(master, parts, others, turns, expired)
        if nodes is not None and (own := rank([*others, *nodes])) < best_rank:
            best, best_rank = [*others, *nodes], own
            if is_enough(best_rank):
                break
    return best


def _chosen_again(
    master: LimitedMaster,
    parts: Sequence[NodePacking],
    others: Sequence[NodePacking],
    turns: Sequence[int],
    expired: Expired,
) -> list[NodePacking] | None:
    """Return other nodes for the pods of some nodes, and for those without a place; None if there are none."""
    counts = master.remaining - np.sum([packing.pods for packing in others], axis=0, dtype=np.int64)
    rations = master.rations
    for packing in others:
        rations = rations.after(packing, counts)
    part = LimitedMaster(master.options, counts, rations)
    part.add(parts)
    fits = (master.table <= counts).all(axis=1)
    part.add([master.packings[number] for number in np.flatnonzero(fits).tolist()])
    try:
        return part.dive(part.generate(ROUNDS, expired), expired, turns, part.cost_of(parts))
    except NoSolutionError:
        return None
