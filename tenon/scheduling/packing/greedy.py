"""Packs small loads of dissimilar pods: repeatedly fills the type with the lowest price for the pods that it takes.

A small load in several zones, or with anti-affinity, is too small to balance over many nodes. It is cheaper to choose
each node for the pods that can share it.
"""

from __future__ import annotations

import numpy as np

from tenon.scheduling.offerings.template import State, Template
from tenon.scheduling.offerings.type_candidates import Floats, Numbers, TypeCandidates, nodes_needed
from tenon.scheduling.packing.balanced_packing import NodeRooms
from tenon.scheduling.packing.bins import Bin, Load, without
from tenon.scheduling.packing.first_fit import Packing, close, first_fit
from tenon.scheduling.pods.blast_radius import WorkloadKey


def fill_best(template: Template, load: Load) -> Packing:
    """Open nodes one by one, each the best for the first waiting pods. Pods that no such node takes go to first-fit."""
    limits = template.limits.copy(template.pool)
    worth: dict[int, float] = {}
    bins: list[Bin] = []
    remaining = list(load)
    unplaced: Load = []
    while remaining:
        permitted = limits.allowed(template.start.types)
        node = None if template.expired() else _best_node(template, remaining, permitted, worth)
        if node is None:
            unplaced.append(remaining.pop(0))
            continue
        close(node, limits)
        bins.append(node)
        remaining = without(remaining, node.load)
    return first_fit(template, unplaced, template.table.every, bins, limits)


def _best_node(
    template: Template,
    load: Load,
    permitted: int,
    worth: dict[int, float],
) -> Bin | None:
    """Return a filled node with at least one pod of the first class; None if no type takes one."""
    first = load[0][0]
    for state in template.successors(template.start, first)[:1]:
        worthy = sum(1 << number for number in template.targets(state)) | state.types & template.burstable
        menu = TypeCandidates.of(template, state, permitted & worthy)
        if not len(menu.numbers):
            return None
        taken_pods, value = _pods_taken(template, menu, load, worth)
        ratio = np.where((taken_pods[:, 0] > 0) & (value > 0), menu.price / np.maximum(value, 1e-12), np.inf)
        row = int(ratio.argmin())
        if np.isinf(ratio[row]):
            return None
        node = Bin(template, permitted, 1 << int(menu.numbers[row]))
        for (pod_class, _), count in zip(load, taken_pods[row].tolist(), strict=True):
            if count:
                node.add(pod_class, count)
        return node if node.load and node.load[0][0] is first else None
    return None


def _pods_taken(
    template: Template, menu: TypeCandidates, load: Load, worth: dict[int, float]
) -> tuple[Numbers, Floats]:
    """Return how many pods of each class (columns) a node of each type (rows) takes, and what these pods are worth.

    A pod is worth the price of the cheapest share of a node that holds it, in dollars an hour.
    """
    nodes = NodeRooms(menu.room)
    taken_pods = np.zeros((len(menu.numbers), len(load)), dtype=np.int64)
    value = np.zeros(len(menu.numbers))
    state: State = menu.state
    carried: dict[WorkloadKey, Numbers] = {}
    for column, (pod_class, count) in enumerate(load):
        states = template.successors(state, pod_class)
        if not states:
            continue
        amounts = np.array(pod_class.amounts, dtype=np.float64)
        replicas = carried.setdefault(template.shares.workload(pod_class), np.zeros(len(menu.numbers), dtype=np.int64))
        limit = np.minimum(1 if pod_class.ports else count, np.maximum(0, template.shares.most(pod_class) - replicas))
        added = nodes.fitting(pod_class, amounts, limit)
        if not added.any():
            continue
        if id(pod_class) not in worth:
            needed = nodes_needed(menu.room, amounts[None])[:, 0]
            worth[id(pod_class)] = float((needed * menu.price).min())
        state = states[0]
        nodes.put(pod_class, amounts, added)
        replicas += added
        taken_pods[:, column] = added
        value += added * worth[id(pod_class)]
    return taken_pods, value
