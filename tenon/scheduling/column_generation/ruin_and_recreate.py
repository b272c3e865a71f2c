"""Improves packed nodes: takes a few of them apart, and buys nodes for their pods again.

The first to go are nodes that cost much more than their pods are worth by the prices of the linear program. A change is
kept if the nodes then cost less, with burstable types at their baseline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from tenon.scheduling.column_generation.columns import Master, NodePacking, buy
from tenon.scheduling.deadline import Expired
from tenon.scheduling.offerings.type_candidates import Floats, Numbers
from tenon.scheduling.packing.bins import Bin

TRIES = 10
"""How often nodes are taken apart."""
SIZES = (3, 4, 5, 2)
"""How many nodes are taken apart at once, in turn."""
ROUNDS = 2
"""How often packings are added for the pods of these nodes."""
CLOSE = 1.005
"""Nodes whose cost is at most this part of the bound by the linear program are good enough."""
LEAST_EXCESS = 0.0125
"""Nodes that cost less than this part of the bound above the worth of their pods are not taken apart: no others save as
much, and such small parts are rarely saved.
"""
NEARLY = 1e-9


@dataclass(frozen=True, slots=True)
class PackedNode:
    """A node with its pods of each class, and what it costs and is sold for in dollars an hour."""

    bin: Bin
    pods: Numbers
    cost: float
    price: float


Builder = Callable[[NodePacking], PackedNode | None]
"""Returns the node of a packing; None if the node cannot have all of the pods."""


def improved(
    master: Master,
    nodes: Sequence[PackedNode],
    worth: Floats,
    least: float,
    build: Builder,
    expired: Expired,
    tries: int = TRIES,
    *,
    at_no_higher_price: bool = False,
) -> list[PackedNode]:
    """Return nodes for the same pods that cost no more.

    Args:
        master: the program for all pods, whose packings may be bought.
        nodes: the nodes to start from.
        worth: what a pod of each class is worth.
        least: the cost at which the program covers all pods.
        build: makes the nodes.
        expired: whether there is no more time.
        tries: how often nodes are taken apart.
        at_no_higher_price: whether no change may raise the price, for which burstable types count as they are sold.
    """
    present = list(nodes)
    draw = Random(len(present))  # the same problem must give the same plan
    pool = master.table
    tried: set[bytes] = set()
    for number in range(tries):
        if expired() or len(present) < 2 or sum(node.cost for node in present) <= CLOSE * least:
            break
        luck = draw if number >= len(SIZES) else None
        positions = _worst(present, worth, SIZES[number % len(SIZES)], luck)
        parts = [present[position] for position in positions]
        counts = np.sum([node.pods for node in parts], axis=0)
        if counts.tobytes() in tried:
            continue
        tried.add(counts.tobytes())
        if sum(node.cost for node in parts) - float(counts @ worth) < LEAST_EXCESS * least:
            continue
        others = _recreated(master, pool, parts, counts, build, expired)
        if at_no_higher_price and price_of(others) > price_of(parts):
            continue
        if others:
            present = [node for position, node in enumerate(present) if position not in positions] + others
    return present


def price_of(nodes: Sequence[PackedNode]) -> float:
    """What the nodes are sold for in all."""
    return round(sum(node.price for node in nodes), 9)


def _recreated(
    master: Master, pool: Numbers, parts: Sequence[PackedNode], counts: Numbers, build: Builder, expired: Expired
) -> list[PackedNode]:
    """Return better nodes for the pods of these; none if there are none."""
    cost = sum(node.cost for node in parts)
    part = Master(master.options, counts, master.promising)
    part.add([NodePacking(node.bin.cheapest(), node.pods, node.cost) for node in parts])
    part.add([master.packings[number] for number in np.flatnonzero((pool <= counts).all(axis=1)).tolist()])
    bought = buy(part, ROUNDS, expired, cost)
    if bought is None or sum(packing.cost for packing in bought) >= cost - NEARLY:
        return []
    built = [node for packing in bought if (node := build(packing)) is not None]
    is_better = sum(node.cost for node in built) < cost - NEARLY
    return built if len(built) == len(bought) and is_better else []


def _worst(nodes: Sequence[PackedNode], worth: Floats, size: int, draw: Random | None) -> set[int]:
    """Positions of nodes with the greatest cost above the worth of their pods, with luck if there is a ``draw``."""
    excess = [
        (node.cost - float(node.pods @ worth) + 1e-6 * number) * (draw.expovariate(1) if draw is not None else 1.0)
        for number, node in enumerate(nodes)
    ]
    return set(sorted(range(len(nodes)), key=lambda position: -excess[position])[:size])
