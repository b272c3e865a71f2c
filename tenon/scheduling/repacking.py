"""Packs a pool's new nodes again, together with the plain pods, once the domain of every pod is settled.

Placing pods one by one fills each node as far as any type reaches, which is expensive. But it only needs to decide the
domains: within them, sizes can be chosen again. Nodes whose pods must stay together keep these pods.
"""

from __future__ import annotations

from tenon.scheduling.fleet import Fleet
from tenon.scheduling.packing import Load, top_up
from tenon.scheduling.pod_classes import queue_order
from tenon.scheduling.sizing import pack


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
