"""Fills one node of every option at once with the pods that are worth most for the room that they take.

Filling a node best for given values of pods is a knapsack problem with several resources. The order by value for the
room gets close to it, if it is tried with several weights of the resources: which of them is short is not known before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tenon.scheduling.column_generation.node_options import USUAL, NodeOptions
from tenon.scheduling.offerings.type_candidates import Floats, Numbers

FEW_WEIGHTS: tuple[tuple[float, float], ...] = ((1.0, 1.0), (1.0, 0.3), (0.3, 1.0))
WEIGHTS = (*FEW_WEIGHTS, (1.0, 0.0), (0.0, 1.0))
"""How much a node's CPU and memory count in the room that a pod takes."""
LEAST_GAIN = 1e-9
"""Dollars an hour that an exchange of pods must gain."""
OTHER = 0.1
"""How much other resources count."""


@dataclass(frozen=True, slots=True)
class Filled:
    """Filled nodes: the row of the option of each, its pods of each class, and what these are worth."""

    rows: Numbers
    pods: Numbers
    value: Floats


def fill(
    options: NodeOptions,
    worth: Floats,
    counts: Numbers,
    weights: tuple[tuple[float, float], ...] = WEIGHTS,
    rows: Numbers | None = None,
    bonus: Floats | None = None,
) -> Filled:
    """Fill a node of each of the rows once for each of the weights, with at most ``counts`` pods of each class.

    ``bonus``: how much more every pod is worth on a node of each option.
    """
    useful = np.flatnonzero((worth > 0) & (counts > 0))
    option_rows = np.arange(len(options.price)) if rows is None else rows
    part = options.part(option_rows, useful)
    count, nodes, classes = len(option_rows), len(option_rows) * len(weights), len(useful)
    value = worth[useful] if bonus is None else worth[useful] + bonus[option_rows][:, None]
    weight = np.full((len(weights), 1, options.resources), OTHER)
    weight[:, 0, :USUAL] = weights
    shares = (weight / part.room[:, : options.resources]).reshape(nodes, options.resources)
    size = (shares @ part.amounts[:, : options.resources].T).reshape(len(weights), count, classes)
    size += 1e-12
    ranks = np.divide(-value, size, out=size)
    np.copyto(ranks, np.inf, where=part.forbidden)
    # by place in the order (rows) and node (columns), so that a step reads whole rows
    order = np.argsort(ranks, axis=2, kind="stable").reshape(nodes, classes).T[: part.most_classes].copy()
    every = np.arange(nodes)
    most = np.minimum(part.most, counts[useful]).ravel()
    requests = part.amounts.T.copy()
    free = np.maximum(np.tile(part.room.T, (1, len(weights))), 0.0)
    pod_counts = np.zeros(nodes * classes)
    first, start = every % count * classes, every * classes
    conflicts = options.conflicts[np.ix_(useful, useful)] if options.conflicts is not None else None
    barred = np.zeros((nodes, classes), dtype=bool) if conflicts is not None else None
    for class_of in order:
        requested = requests.take(class_of, axis=1)
        added = np.floor(np.minimum((free / requested).min(axis=0), most.take(first + class_of)))
        if barred is not None and conflicts is not None:
            added[barred[every, class_of]] = 0
            barred |= conflicts[class_of] & (added > 0)[:, None]
        free -= added * requested
        pod_counts[start + class_of] = added
    pods = pod_counts.reshape(nodes, classes)
    table = np.zeros((nodes, len(worth)), dtype=np.int64)
    table[:, useful] = pods
    total = pods @ worth[useful]
    if bonus is not None:
        total = total + pods.sum(axis=1) * np.tile(bonus[option_rows], len(weights))
    return Filled(np.tile(option_rows, len(weights)), table, total)


def exchanged(options: NodeOptions, filled: Filled, prices: Floats, counts: Numbers) -> Filled:
    """Return filled nodes with one pod of each replaced by pods that are worth more, where there are such pods.

    In the order by value for the room, the last pods are often too large for what is left.

    Args:
        options: what the nodes may be.
        filled: the nodes.
        prices: what a pod of each class (columns) is worth on each of the nodes (rows).
        counts: the most pods of each class.
    """
    nodes = np.arange(len(filled.rows))
    free = options.room[filled.rows] - filled.pods @ np.where(options.amounts < 1, 0.0, options.amounts)
    spare = np.where(options.allowed[filled.rows], counts - filled.pods, 0)
    best_gain, pods = np.full(len(nodes), LEAST_GAIN), filled.pods.copy()
    for leaving in np.flatnonzero(filled.pods.any(axis=0)).tolist():
        room = free + options.amounts[leaving]
        fitting = np.min(np.floor(np.maximum(room, 0.0)[:, None] / options.amounts), axis=2)
        entering = np.minimum(fitting, spare)
        entering[:, leaving] = 0
        gain = entering * prices - prices[:, leaving, None]
        entering_class = gain.argmax(axis=1)
        better = (gain[nodes, entering_class] > best_gain) & (filled.pods[:, leaving] > 0)
        rows = nodes[better]
        pods[rows] = filled.pods[rows]
        pods[rows, leaving] -= 1
        pods[rows, entering_class[rows]] += entering[rows, entering_class[rows]].astype(np.int64)
        best_gain[rows] = gain[rows, entering_class[rows]]
    changed = best_gain > LEAST_GAIN
    return Filled(filled.rows[changed], pods[changed], (pods * prices).sum(axis=1)[changed])
