"""Puts pods on the nodes of a bound over whole nodes: if they fit, the bound is the cost of a plan."""

from __future__ import annotations

from collections import defaultdict

import highspy
import numpy as np

from benchmarks.loads.chosen_nodes import ChosenNode, plan_of_nodes
from benchmarks.loads.purchases import Integers, Members, Purchases
from benchmarks.loads.spread_rows import spread_rows
from tenon.kube.pod import Pod
from tenon.scheduling.limited.divisible_load import dense_program
from tenon.scheduling.model import Plan, Problem


def plan_on_nodes(
    problem: Problem, plan: Plan, purchases: Purchases, members: Members, nodes: Integers, seconds: float
) -> Plan | None:
    """Return a plan with these nodes for the pods of another plan; None if there is none, or none is found in time.

    Args:
        problem: what both plans solve.
        plan: the other one.
        purchases: the options, and the classes of pods.
        members: the pods of the classes.
        nodes: how many of each option.
        seconds: that the integer program may take.
    """
    options = np.repeat(np.arange(len(nodes)), nodes)
    table = _contents(purchases, options, seconds)
    if table is None:
        return None
    in_zones, contents = table
    waiting = _in_classes(purchases, members, in_zones)
    chosen_nodes = []
    for pods in contents:
        on_node: list[Pod] = []
        zone: str | None = None
        for number in np.flatnonzero(pods).tolist():
            for _ in range(min(int(pods[number]), len(waiting[number]))):
                pod, pod_zone = waiting[number].pop()
                on_node.append(pod)
                zone = pod_zone or zone
        chosen_nodes.append(ChosenNode(tuple(on_node), zone))
    return plan_of_nodes(problem, chosen_nodes, plan)


def _contents(purchases: Purchases, options: Integers, seconds: float) -> tuple[list[list[int]], Integers] | None:
    """Return the pods of each spread in each of its zones, and the pods of each class on each node."""
    spreads, classes, nodes = spread_rows(purchases), len(purchases.counts), len(options)
    # columns: pods of each class on each node, then those of the spreads
    of_nodes = nodes * classes
    width = of_nodes + spreads.width
    unit = np.maximum(1, purchases.room[options]).astype(np.float64)
    room = np.zeros((nodes, purchases.requests.shape[1], width))
    for node in range(nodes):
        room[node, :, node * classes : (node + 1) * classes] = purchases.requests.T / unit[node, :, None]
    everyone = float(purchases.most.sum())
    solver = dense_program(
        np.zeros(width),
        (
            np.zeros(width),
            np.concatenate([np.where(purchases.fits[options], everyone, 0).ravel(), spreads.most]),
        ),
        np.vstack(
            [
                room.reshape(-1, width),
                np.hstack([np.zeros((len(spreads.table), of_nodes)), spreads.table]),
                np.hstack([np.tile(np.eye(classes), nodes), -spreads.of_classes]),
            ]
        ),
        (
            np.concatenate([np.full(unit.size, -np.inf), spreads.lower, purchases.counts]),
            np.concatenate([np.full(unit.size, 1.0), spreads.upper, np.full(classes, np.inf)]),
        ),
    )
    every = np.arange(width, dtype=np.int32)
    solver.changeColsIntegrality(width, every, np.full(width, highspy.HighsVarType.kInteger))
    for name, value in (("presolve", "on"), ("solver", "choose"), ("time_limit", seconds)):
        solver.setOptionValue(name, value)
    solver.run()
    if solver.getInfo().primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return None
    values = np.round(np.array(solver.getSolution().col_value)).astype(np.int64)
    in_zones = [values[of_nodes + zones].tolist() for zones in spreads.zones]
    return in_zones, values[:of_nodes].reshape(nodes, classes)


def _in_classes(
    purchases: Purchases, members: Members, in_zones: list[list[int]]
) -> dict[int, list[tuple[Pod, str | None]]]:
    """The pods of each class, those that spread with their zone."""
    waiting: dict[int, list[tuple[Pod, str | None]]] = defaultdict(list)
    for number, pods in enumerate(members.of_classes):
        waiting[number] += [(pod, None) for pod in pods]
    for spread, spread_pods, counts in zip(purchases.spreads, members.of_spreads, in_zones, strict=True):
        remaining = list(spread_pods)
        for class_number, zone, count in zip(spread.classes, spread.zones, counts, strict=True):
            if class_number is not None:
                waiting[class_number] += [(pod, zone) for pod in remaining[:count]]
            remaining = remaining[count:]
    return waiting
