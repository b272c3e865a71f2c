"""Chooses the sizes of a NodePool's nodes.

Filling the largest type first is simple but expensive: above some size a vCPU is not cheaper, and the last node is
rarely full. So the engine makes several packings of the same pods and keeps the cheapest: the load balanced over nodes
of the best sizes, single nodes filled at the best price, and first-fit with capped node sizes. Plain first-fit is
always one of them, and a packing that costs more is never chosen.

Once the domain of every pod is settled, a pool's new nodes are packed again, together with the plain pods: placing pods
one by one fills each node as far as any type reaches, which is expensive. But it only needs to decide the domains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain

import numpy as np

from tenon.resources import CPU, MEMORY
from tenon.scheduling.offerings.limits import Limits
from tenon.scheduling.offerings.template import Template
from tenon.scheduling.offerings.type_candidates import TypeCandidates, nodes_needed
from tenon.scheduling.packing.balanced_packing import balance
from tenon.scheduling.packing.bins import Load, top_up
from tenon.scheduling.packing.first_fit import Packing, first_fit
from tenon.scheduling.packing.fleet import Fleet
from tenon.scheduling.packing.greedy import fill_best
from tenon.scheduling.packing.load_partition import partitions
from tenon.scheduling.pods.pod_classes import queue_order


def repack(fleet: Fleet, waiting_load: Load) -> Load:
    """Give the waiting pods nodes of the pool. Return the pods that still wait, in queue order."""
    template = fleet.template
    suited = [(pod_class, count) for pod_class, count in waiting_load if fleet.suits(pod_class)]
    kept_bins = [node for node in fleet.bins if any(pod_class.near for pod_class, _ in node.load)]
    free = [node for node in fleet.bins if not any(pod_class.near for pod_class, _ in node.load)]
    if not suited and not free:
        return waiting_load
    before = suited
    for node in kept_bins:
        suited = top_up(node, suited)
    base = fleet.limits.copy(template.pool)
    for node in free:
        base.take({name: -amount for name, amount in base.peak(node.types).items()}, nodes=-1)
    settled = [pair for node in free for pair in node.load]
    packing = pack(template, _merged(settled + suited), base)
    ours = {id(pod_class) for pod_class, _ in settled}
    if any(id(pod_class) in ours for pod_class, _ in packing.unplaced):
        for node in free:
            suited = top_up(node, suited)
        packing = pack(template, suited, fleet.limits)
        fleet.replace([*fleet.bins, *packing.bins], packing.limits)
    else:
        fleet.replace([*kept_bins, *packing.bins], packing.limits)
    unplaced = {id(pod_class): count for pod_class, count in packing.unplaced}
    class_ids = {id(pod_class) for pod_class, _ in before}
    after = [(c, unplaced.get(id(c), 0) if id(c) in class_ids else count) for c, count in waiting_load]
    return [(pod_class, count) for pod_class, count in after if count]


def _merged(load: Load) -> Load:
    """The load in queue order, each class once."""
    counts: dict[int, int] = {}
    classes = {}
    for pod_class, count in load:
        counts[id(pod_class)] = counts.get(id(pod_class), 0) + count
        classes[id(pod_class)] = pod_class
    ordered = sorted(classes.values(), key=lambda pod_class: (queue_order(pod_class), str(pod_class.terms)))
    return [(pod_class, counts[id(pod_class)]) for pod_class in ordered]


CAPS = (8_000, 16_000, 32_000, 64_000, 96_000)
"""Node sizes in millicores to try with first-fit."""
FEW = 2_000
"""Pods that keep each other off their nodes are balanced in two ways if classes x nodes is at most this."""
SMALL = 6_000
"""Nodes are filled one by one at the best price for each if classes x nodes is at most this."""
EFFORT = 10_000
"""First-fit with a size cap is tried if classes x nodes is at most this."""
MAX_OUTLIERS = 0.1
"""The largest share of the pods that counts as few."""


def pack(template: Template, load: Load, limits: Limits | None = None, *, whole: bool = True) -> Packing:
    """Return the best packing of a load on new nodes of a pool. The load must be in queue order.

    ``limits`` is what the pool may still launch, if that differs from what its own limits leave. Set ``whole`` to False
    for a part of a load whose outliers (few pods that fit only unusual types) were already separated.
    """
    if limits is not None:
        template.limits = limits.copy(template.pool)
    plain = first_fit(template, load, template.table.every)
    if not plain.bins:
        return plain
    packings, plain_price = [plain], plain.price()
    # pods that first-fit cannot place at all must not affect the other packings
    class_counts = {id(pod_class): count for pod_class, count in load}
    hopeless = [(pod_class, count) for pod_class, count in plain.unplaced if count == class_counts[id(pod_class)]]
    without = {id(pod_class) for pod_class, _ in hopeless}
    hopeful = [pair for pair in load if id(pair[0]) not in without]
    attempts = _attempts(template, hopeful, len(plain.bins))
    if whole and plain.limits.unlimited:
        odd, regular = outliers(template, hopeful)
        attempts = chain(attempts, [partial(_pack_outliers, template, odd, regular)] if odd else ())
    for attempt in attempts:
        if template.expired():
            break
        packing = attempt()
        packing = replace(packing, unplaced=[*packing.unplaced, *hopeless])
        # under limits, first-fit makes many small nodes, so its price alone is not a fair comparison
        if packing.price() <= plain_price or not plain.limits.unlimited:
            packings.append(packing)
    return min(packings, key=Packing.cost)


def _pack_outliers(template: Template, odd: Load, regular: Load) -> Packing:
    """Pack the outliers, fill their nodes with other pods at no extra cost, and pack the remaining pods."""
    first = pack(template, odd, whole=False)
    for node in first.bins:
        regular = top_up(node, regular)
    second = pack(template, regular, whole=False)
    bins, unplaced = [*first.bins, *second.bins], [*first.unplaced, *second.unplaced]
    return first_fit(template, unplaced, template.table.every, bins, second.limits)


def _attempts(template: Template, load: Load, nodes: int) -> Iterator[Callable[[], Packing]]:
    largest_load, scattered = 0, False
    for portions in partitions(template, load):
        largest_load = max(largest_load, *(len(portion.classes) for portion in portions), 0)
        scattered = any(portion.is_scattered for portion in portions)
        for tight in (True,) if scattered and len(load) * nodes > FEW else (False, True):
            yield partial(balance, template, load, portions, tight=tight)
    if largest_load < len(load) or scattered:
        if len(load) * nodes <= SMALL:
            yield partial(fill_best, template, load)
        number = template.table.names.index(CPU)
        for cap in CAPS if len(load) * nodes <= EFFORT else ():
            capped = template.table.every & ~template.table.holding(number, cap)
            if capped:
                yield partial(first_fit, template, load, capped)


def outliers(template: Template, load: Load) -> tuple[Load, Load]:
    """Split a load into outliers and the other pods. The outliers are empty if they are not few.

    Outliers do not fit on the type for which the whole load costs least, by CPU and memory, which every pod needs. Each
    node must hold the load's largest pod, so one pod that requests eight GPUs would make every node a GPU node, and
    with another pod of 3,500Gi there would be no type for both. Outliers get their own nodes first. Other pods may use
    the room left on these, and the rest is packed as if the outliers did not exist.
    """
    menu = TypeCandidates.of(template, template.start, template.limits.allowed(template.start.types))
    if not len(menu.numbers) or len(load) < 2:
        return [], load
    amounts = np.array([pod_class.amounts for pod_class, _ in load], dtype=np.float64)
    counts = np.array([count for _, count in load], dtype=np.int64)
    usual = [template.table.names.index(name) for name in (CPU, MEMORY)]
    total = (counts @ amounts)[None, usual]
    best = int((nodes_needed(menu.room[:, usual], total)[:, 0] * menu.price).argmin())
    odd = (amounts > menu.room[best]).any(axis=1)
    if not odd.any() or counts[odd].sum() > MAX_OUTLIERS * counts.sum():
        return [], load
    apart = [pair for pair, alone in zip(load, odd, strict=True) if alone]
    return apart, [pair for pair, alone in zip(load, odd, strict=True) if not alone]
