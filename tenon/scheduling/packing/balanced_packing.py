"""Chooses node sizes for a load as a whole, and distributes every class of pods over the nodes in proportion to size.

Nodes that each carry the same mix run out of CPU and memory at the same time, so no node stays half empty.

Each type holds a known part of the load, and the cheapest sizes are those whose parts cover all of it: an inverse
knapsack problem. It is solved exactly for the last few nodes. The other nodes are of the type with the best price.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tenon.scheduling.offerings.template import Template
from tenon.scheduling.offerings.type_candidates import Floats, Numbers, nodes_needed
from tenon.scheduling.packing.bins import Bin, Load
from tenon.scheduling.packing.first_fit import Packing, close, first_fit
from tenon.scheduling.packing.load_partition import LoadPart, joined_state
from tenon.scheduling.pods.blast_radius import WorkloadKey
from tenon.scheduling.pods.hostname_rules import UNBOUNDED, HostRules
from tenon.scheduling.pods.pod_classes import PodClass

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
    rest = np.maximum(np.arange(need + 1)[:, None] - capacity, 0)  # of each amount, after a node of each size
    step = int(capacity.min())  # amounts that differ by less do not depend on each other
    for first in range(1, need + 1, step):
        if step == 1:  # NumPy takes twice as long for a block with one amount
            ways = cost[rest[first]] + price
            pick[first] = ways.argmin()
            cost[first] = ways[pick[first]]
            continue
        amounts = slice(first, first + step)
        ways = cost[rest[amounts]] + price
        pick[amounts] = ways.argmin(axis=1)
        cost[amounts] = ways.min(axis=1)
    return cost, pick


TRIES = 4
"""How often sizes are chosen again, with slightly more room, if pods would be left over."""
STEP = 0.002
"""The least relative growth of that room."""
ROUNDS = 4
"""How many times pods left over are distributed again."""


def balance(template: Template, load: Load, portions: list[LoadPart], *, tight: bool) -> Packing:
    """Distribute the portions of a load over new nodes. First-fit places what does not fit this way.

    Sizes are chosen so that everything fits. With ``tight``, they may leave a few pods to smaller nodes.
    """
    limits = template.limits.copy(template.pool)
    bins: list[Bin] = []
    placed_pods: dict[int, int] = {}
    for portion in portions if not template.expired() else ():
        for node in _nodes(template, portion, tight):
            if not limits.unlimited and not node.give_way(limits.allowed(node.types)):
                continue
            close(node, limits)
            bins.append(node)
            for pod_class, count in node.load:
                placed_pods[id(pod_class)] = placed_pods.get(id(pod_class), 0) + count
    remaining = [(pod_class, count - placed_pods.get(id(pod_class), 0)) for pod_class, count in load]
    remaining = [(pod_class, count) for pod_class, count in remaining if count]
    return first_fit(template, remaining, template.table.every, bins, limits)


def _nodes(template: Template, portion: LoadPart, tight: bool) -> Iterator[Bin]:
    """Yield filled nodes for a portion. A few pods may be left over."""
    for _ in range(ROUNDS):
        if not portion.classes or template.expired():
            return
        rows, table = _choose(template, portion, tight)
        if not rows:
            return
        for row, dealt in zip(rows, table, strict=True):
            yield from _fill(template, portion, row, dealt)
        portion = portion.some(portion.counts - table.sum(axis=0))


def _choose(template: Template, portion: LoadPart, tight: bool) -> tuple[list[int], Numbers]:
    """Return rows of the menu to buy, and for each of them (rows) the pods of each class (columns)."""
    menu, total, largest = portion.menu, portion.total, portion.amounts.max(axis=0)
    least = portion.least_nodes(template)
    if len(portion.classes) == 1 and least == 1:
        parts, units = np.floor(menu.parts(portion.amounts[0], largest) + 1e-9), int(portion.counts[0])
        rows = choose_sizes(menu.price, parts, units) if parts.any() else []
        return rows, _assigned(template, menu.room[rows], parts[rows] / units, portion)
    remainder_price = float((nodes_needed(menu.room, total[None])[:, 0] * menu.price).min()) if tight else None
    rows, table, growth = [], np.zeros((0, len(portion.classes)), dtype=np.int64), 1.0
    for _ in range(1 if tight else TRIES):
        parts = menu.parts(total * growth, largest)
        if not parts.any():
            break
        rows = choose_sizes(menu.price, parts, 1, remainder_price, template.node_charge)
        if len(rows) < least:  # no node may carry more than its share
            rows = spread_sizes(menu.price, parts, least) or rows
        key = (growth, *rows)
        if key not in portion.dealt:
            portion.dealt[key] = _assigned(template, menu.room[rows], parts[rows], portion)
        table = portion.dealt[key]
        unassigned = portion.counts - table.sum(axis=0)
        if not unassigned.any():
            break
        growth *= 1 + max(STEP, 2 * float((unassigned @ portion.amounts / np.maximum(total, 1.0)).max()))
    return rows, table


def _assigned(template: Template, room: Floats, parts: Floats, portion: LoadPart) -> Numbers:
    """Return pods of each class (columns) for nodes with this room (rows). The smallest pods may be left over."""
    nodes = NodeRooms(room)
    weights = parts / max(1.0, parts.sum())
    heaviest = float(weights.max(initial=0.0))
    table = np.zeros((len(room), len(portion.counts)), dtype=np.int64)
    size = (portion.amounts / np.maximum(portion.total, 1.0)).max(axis=1)
    carried: dict[WorkloadKey, Numbers] = {}
    # classes that limit how many of their pods share a node come first, then the largest
    anywhere = np.array([pod_class.host is None and not pod_class.ports for pod_class in portion.classes])
    for number in np.lexsort((-size, anywhere)).tolist():
        pod_class, amounts = portion.classes[number], portion.amounts[number]
        unassigned = int(portion.counts[number])
        replicas = carried.setdefault(template.shares.workload(pod_class), np.zeros(len(room), dtype=np.int64))
        max_replicas = template.shares.most(pod_class)
        while unassigned:
            added = None
            if unassigned * heaviest >= 1:
                added = np.floor(unassigned * weights).astype(np.int64)
                added = np.minimum(added, nodes.fitting(pod_class, amounts, max_replicas - replicas))
            if added is None or not added.any():
                added = nodes.emptiest(pod_class, amounts, max_replicas - replicas, unassigned)
                if added is None:
                    break
            table[:, number] += added
            replicas += added
            nodes.put(pod_class, amounts, added)
            unassigned -= int(added.sum())
    return table


class NodeRooms:
    """What is left on nodes while pods are distributed over them."""

    def __init__(self, room: Floats) -> None:
        self._whole = np.maximum(room, 1e-9)
        self._remaining = self._whole.copy()
        self._hosts: dict[int, Numbers] = {}
        self._ports: dict[tuple[int, str], Numbers] = {}

    def fitting(self, pod_class: PodClass, amounts: Floats, limit: Numbers) -> Numbers:
        """How many more pods of a class each node takes, up to ``limit``."""
        requested = amounts > 0
        fits = np.floor((self._remaining[:, requested] / amounts[requested]).min(axis=1, initial=UNBOUNDED)).astype(
            np.int64
        )
        return self._allowed(pod_class, np.minimum(fits, limit))

    def emptiest(self, pod_class: PodClass, amounts: Floats, limit: Numbers, count: int) -> Numbers | None:
        """Assign one pod of a class to each of the ``count`` least full nodes that take one; None if no node does."""
        after = self._remaining - amounts
        open_to = (after >= 0).all(axis=1) & (limit > 0)
        if pod_class.host is not None or pod_class.ports:
            open_to &= self._allowed(pod_class, limit) > 0
        rows = np.flatnonzero(open_to)
        if not len(rows):
            return None
        free_share = (after[rows] / self._whole[rows]).min(axis=1)
        additions = np.zeros(len(open_to), dtype=np.int64)
        additions[rows[np.argsort(-free_share, kind="stable")[:count]] if count > 1 else rows[free_share.argmax()]] = 1
        return additions

    def put(self, pod_class: PodClass, amounts: Floats, added: Numbers) -> None:
        """Count pods that were assigned."""
        self._remaining -= added[:, None] * amounts
        if pod_class.host is not None:
            for group in (*pod_class.host.counted, *(~anti_group for anti_group in pod_class.host.holds)):
                self._hosts[group] = self._hosts.get(group, 0) + added
        for _, port, protocol in pod_class.ports:
            self._ports[port, protocol] = self._ports.get((port, protocol), 0) + added

    def _allowed(self, pod_class: PodClass, fits: Numbers) -> Numbers:
        """How many of these pods the rules about pods on one node allow."""
        for _, port, protocol in pod_class.ports:
            fits = np.minimum(fits, 1 - self._ports.get((port, protocol), 0))
        if pod_class.host is not None:
            fits = np.minimum(fits, _room_by_host_rules(pod_class.host, self._hosts, len(fits)))
        return fits


def _room_by_host_rules(rules: HostRules, hosts: dict[int, Numbers], nodes: int) -> Numbers:
    """`HostRules.room` for many nodes at once."""
    zeros = np.zeros(nodes, dtype=np.int64)
    room = np.full(nodes, UNBOUNDED, dtype=np.int64)
    for group, limit in rules.at_most:
        room = np.minimum(room, limit - hosts.get(group, zeros))
    for group in rules.repelled:
        room[hosts.get(~group, zeros) > 0] = 0
    for group in rules.needs:
        room[hosts.get(group, zeros) == 0] = 0
    for group, limit in rules.beside_at_most:
        room[hosts.get(group, zeros) > limit] = 0
    return np.maximum(room, 0)


def _fill(template: Template, portion: LoadPart, row: int, dealt: Numbers) -> Iterator[Bin]:
    """Yield a node of the row's type with as many of these pods as fit; nothing if none fits."""
    load = [(portion.classes[number], int(dealt[number])) for number in np.flatnonzero(dealt)]
    if load:
        node = Bin(template, template.start.types, 1 << int(portion.menu.numbers[row]))
        state = joined_state(template, template.start, load)
        if state is None or not node.stack(load, state):
            for pod_class, count in load:
                node.add(pod_class, count)
        if node.load:
            yield node
