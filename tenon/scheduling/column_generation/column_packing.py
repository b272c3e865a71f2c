"""Packs the new nodes of a NodePool again by column generation, and keeps the result if it is better in every respect.

The pods stay in their domains, so that rules between pods hold as before, and no other decision of the plan changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tenon.scheduling.column_generation.columns import ROUNDS, Master, NodePacking, Solution, buy
from tenon.scheduling.column_generation.node_options import NodeOptions, Source
from tenon.scheduling.column_generation.ruin_and_recreate import CLOSE, TRIES, PackedNode, improved, price_of
from tenon.scheduling.offerings.limits import Limits
from tenon.scheduling.offerings.template import Template
from tenon.scheduling.packing.bins import Bin, Load
from tenon.scheduling.packing.first_fit import Packing, close, first_fit
from tenon.scheduling.packing.fleet import Fleet, Program, kind_of
from tenon.scheduling.packing.load_partition import joined_state
from tenon.scheduling.pods.pod_classes import PodClass, queue_order

MAX_CLASSES = 80
"""The most kinds of pods in a load that is packed by columns."""
MAX_NODES = 60
"""The most nodes."""


def repack_by_columns(fleet: Fleet, accepts: Callable[[], bool]) -> bool:
    """Replace the fleet's nodes if others hold the same pods at a lower cost and no higher price. Return whether.

    Args:
        fleet: a NodePool without limits that may bind.
        accepts: whether the fleet may stay as it then is.

    Raises:
        ProgramFailedError: the solver failed. The fleet is as before.
    """
    free = [node for node in fleet.bins if not any(pod_class.near for pod_class, _ in node.load)]
    load = merged_load(free)
    if not 1 < len(free) <= MAX_NODES or len(load) > MAX_CLASSES or fleet.template.expired():
        return False
    base = fleet.limits.copy(fleet.template.pool)
    for node in free:
        base.take({name: -amount for name, amount in base.peak(node.types).items()}, nodes=-1)

    def learn(solution: Solution) -> None:
        near_cost = Packing([node for node in fleet.bins if node not in free], [], fleet.limits).cost()[1]
        worth = zip(load, solution.prices.worth.tolist(), strict=True)
        fleet.program = Program(
            solution.cost + near_cost, {kind_of(pod_class): value for (pod_class, _), value in worth}
        )

    bins = better_nodes(fleet.template, load, base, free, learn=learn)
    if bins is None:
        return False
    packing = _within(fleet.template, bins, base)
    before = Packing(free, [], fleet.limits)
    if packing is None or packing.cost() >= before.cost() or packing.price() > before.price():
        return False
    bins_before, limits_before = fleet.bins, fleet.limits
    fleet.replace([*(node for node in fleet.bins if node not in free), *packing.bins], packing.limits)
    if not accepts():
        fleet.replace(bins_before, limits_before)
        return False
    return True


def better_nodes(
    template: Template,
    load: Load,
    limits: Limits,
    nodes: Sequence[Bin],
    tries: int = TRIES,
    learn: Callable[[Solution], None] = lambda _: None,
) -> list[Bin] | None:
    """Return cheaper nodes for the load that ``nodes`` hold; None if there are none, or no time.

    ``tries``: how often a few nodes are taken apart at the end. ``learn`` hears what the program says of the load.
    """
    options = NodeOptions([Source(template, limits)], load)
    if not options.usable:
        return None
    numbers = {id(pod_class): number for number, (pod_class, _) in enumerate(load)}
    before = [packed(node, numbers) for node in nodes]
    master = Master(options, options.counts)
    master.add([NodePacking(node.bin.cheapest(), node.pods, node.cost) for node in before])
    solution = master.converge(ROUNDS, template.expired)
    learn(solution)
    if sum(node.cost for node in before) <= CLOSE * solution.cost:
        return None

    def node_of(packing: NodePacking) -> PackedNode | None:
        return build(template, options, packing, numbers)

    bought = buy(master, 0, template.expired)
    built = [node for packing in bought or () if (node := node_of(packing)) is not None]
    if bought is None or len(built) < len(bought):
        built = before
    worth, least = solution.prices.worth, solution.cost
    after = improved(master, built, worth, least, node_of, template.expired, tries)
    if price_of(after) > price_of(before):
        # many changes raise the price, so it takes more tries
        after = improved(master, before, worth, least, node_of, template.expired, 2 * tries, at_no_higher_price=True)
    return [node.bin for node in after] if {id(node.bin) for node in after} != {id(node) for node in nodes} else None


def build(template: Template, options: NodeOptions, packing: NodePacking, numbers: dict[int, int]) -> PackedNode | None:
    """Return the node of a packing; None if it cannot have all of the pods. ``numbers`` are those of the classes."""
    pods = [(options.classes[number], int(packing.pods[number])) for number in np.flatnonzero(packing.pods)]
    node = Bin(template, template.start.types, 1 << packing.type)
    state = joined_state(template, template.start, pods)
    if state is None or not node.stack(pods, state):
        for pod_class, count in pods:
            if node.add(pod_class, count) < count:
                return None
    return packed(node, numbers)


def _within(template: Template, bins: Sequence[Bin], limits: Limits) -> Packing | None:
    """Return nodes as a packing within the limits; None if they exceed them."""
    remaining = limits.copy(template.pool)
    for node in bins:
        if not remaining.unlimited and not node.give_way(remaining.allowed(node.types)):
            return None
        close(node, remaining)
    return first_fit(template, [], template.table.every, bins, remaining)


def packed(node: Bin, numbers: dict[int, int]) -> PackedNode:
    """Return a node with its pods of each class, and what it costs. ``numbers`` are those of the classes."""
    pods = np.zeros(len(numbers), dtype=np.int64)
    for pod_class, count in node.load:
        pods[numbers[id(pod_class)]] += count
    template = node.template
    cost = template.sizing_price(node.state, node.types, node.amounts[0]) + template.node_charge
    return PackedNode(node, pods, cost, template.price(node.state, node.types))


def packings_of(nodes: Sequence[Bin], load: Load) -> list[NodePacking]:
    """Return the nodes as packings of the load's classes."""
    numbers = {id(pod_class): number for number, (pod_class, _) in enumerate(load)}
    packed_nodes = [packed(node, numbers) for node in nodes]
    return [NodePacking(node.bin.cheapest(), node.pods, node.cost) for node in packed_nodes]


def merged_load(nodes: Sequence[Bin]) -> Load:
    """The pods of the nodes, each class once, in a fixed order."""
    counts: dict[int, int] = {}
    classes: dict[int, PodClass] = {}
    for node in nodes:
        for pod_class, count in node.load:
            counts[id(pod_class)] = counts.get(id(pod_class), 0) + count
            classes[id(pod_class)] = pod_class
    ordered = sorted(classes.values(), key=lambda pod_class: (queue_order(pod_class), str(pod_class.terms)))
    return [(pod_class, counts[id(pod_class)]) for pod_class in ordered]
