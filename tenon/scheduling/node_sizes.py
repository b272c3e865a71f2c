"""Chooses the cheapest sizes of nodes that together hold a load.

Each type holds a known part of the load. The goal is the cheapest set of types whose parts cover all of it: an inverse
knapsack problem. It is solved exactly for the last few nodes. The other nodes are of the type with the best price.
"""

from __future__ import annotations

import numpy as np

from tenon.scheduling.type_candidates import Floats, Numbers

GRAINS = 240
"""About how many equal parts a load is divided into when sizes are chosen."""
NODES_LEFT = 8
"""About how many nodes are chosen exactly."""
LEFT_OVER = 0.1
"""The share of the exactly chosen part that may be left for smaller nodes."""


def choose_sizes(
    price: Floats, parts: Floats, units: int, remainder_price: float | None = None, charge: float = 0.0
) -> list[int]:
    """Return the rows of the types to buy, the largest first.

    A node of a row costs ``price`` and holds ``parts`` of the ``units`` (whole units, or 1 for the whole load). With
    ``remainder_price``, dollars an hour for one unit, a little may be left over, which costs ``charge`` more.
    """
    usable = np.flatnonzero(parts > 0)
    best = usable[(price[usable] / parts[usable]).argmin()]
    bulk = max(0, int(units / parts[best]) - NODES_LEFT)
    remaining = units - bulk * parts[best]
    # fractions are measured in grains; the best type holds a whole number of them
    scale = 1.0 if units > 1 else max(1, round(GRAINS * parts[best] / remaining)) / parts[best]
    grains = np.floor(parts * scale + 1e-9).astype(np.int64)
    need = int(np.ceil(remaining * scale - 1e-9))
    rows = _worthy(price, grains)
    grains_held, cost_of = np.minimum(grains[rows], need), price[rows]
    cost, pick = _table(cost_of, grains_held, need)
    if remainder_price is not None and need * LEFT_OVER >= 1:
        shortfalls = np.arange(1, int(need * LEFT_OVER) + 1)
        ways = cost[need - shortfalls] + charge + remainder_price * remaining / need * shortfalls
        if ways.min() < cost[need]:
            need -= int(shortfalls[ways.argmin()])
    sizes = [int(best)] * bulk
    while need > 0:
        sizes.append(int(rows[pick[need]]))
        need -= int(grains_held[pick[need]])
    return sorted(sizes, key=lambda row: (-parts[row], row))


def spread_sizes(price: Floats, parts: Floats, nodes: int) -> list[int]:
    """Return the rows of ``nodes`` nodes, of at most two types, that hold the whole load; empty if all are too small.

    A node of a row costs ``price`` and holds ``parts`` of the load.
    """
    rows = _worthy(price, parts)
    large, small = rows[parts[rows] >= 1 / nodes], rows[parts[rows] < 1 / nodes]
    if not len(large):
        return []
    if not len(small):
        return [int(large[-1])] * nodes
    short = 1 - nodes * parts[small][None]
    few = np.ceil(short / (parts[large][:, None] - parts[small][None]) - 1e-9)
    cost = few * price[large][:, None] + (nodes - few) * price[small][None]
    first, second = np.unravel_index(cost.argmin(), cost.shape)
    count = int(few[first, second])
    return [int(large[first])] * count + [int(small[second])] * (nodes - count)


def _worthy(price: Floats, capacity: Floats | Numbers) -> Numbers:
    """Rows that hold anything, the largest first. Each costs less than every row before it."""
    rows = np.flatnonzero(capacity > 0)
    order = rows[np.lexsort((rows, price[rows], -capacity[rows]))]
    falling = np.minimum.accumulate(price[order])
    return order[np.concatenate(([True], falling[1:] < falling[:-1]))]


def _table(price: Floats, capacity: Numbers, need: int) -> tuple[Floats, Numbers]:
    """For each amount up to ``need``, the least cost of nodes that hold it, and the last of these nodes."""
    cost = np.zeros(need + 1)
    pick = np.zeros(need + 1, dtype=np.int64)
    for amount in range(1, need + 1):
        ways = cost[np.maximum(amount - capacity, 0)] + price
        pick[amount] = ways.argmin()
        cost[amount] = ways[pick[amount]]
    return cost, pick
