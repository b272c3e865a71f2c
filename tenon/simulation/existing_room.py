"""Lets pods with preferences use existing nodes first, because kube-scheduler does before the worker sees them.

kube-scheduler places a pod wherever it fits, and its preferences only choose among the nodes. The worker therefore
plans only for pods that fit nowhere. Pending pods from files have met no kube-scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tenon.kube.pod import Pod
from tenon.scheduling.model import Plan, Problem
from tenon.scheduling.most_pods import solve_for_most_pods
from tenon.scheduling.relaxation import without_preferences

Placements = Mapping[str, tuple[Pod, ...]]


def placed_by_kube_scheduler(problem: Problem) -> Placements:
    """Return, by node, the pods with preferences that fit on nodes which run already.

    All pods compete for the room, but those without preferences stay in the plan, which uses existing nodes first too.
    """
    running = [node for node in problem.nodes if node.requirements is None and node.initialized]
    preferring = {pod.key for pod in problem.pods if not pod.buffer and without_preferences(pod.rules) != pod.rules}
    if problem.ignore_preferences or not preferring or not running:
        return {}
    placements: dict[str, tuple[Pod, ...]] = {}
    for pods in _by_priority(problem.pods):
        plan = solve_for_most_pods(replace(problem, pods=pods, pools=[], nodes=running)).placements
        running = [node.with_pods(plan.get(node.name, ())) for node in running]
        for name, placed in plan.items():
            placements[name] = (*placements.get(name, ()), *(pod for pod in placed if pod.key in preferring))
    return {name: placed for name, placed in placements.items() if placed}


def _by_priority(pods: Sequence[Pod]) -> Iterator[list[Pod]]:
    """Yield the pods of each priority, the highest first, as kube-scheduler's queue does."""
    groups: dict[int, list[Pod]] = {}
    for pod in pods:
        if not pod.buffer:
            groups.setdefault(pod.priority, []).append(pod)
    for priority in sorted(groups, reverse=True):
        yield groups[priority]


def with_placements(plan: Plan, placed: Placements) -> Plan:
    """Return the plan with these pods on existing nodes too."""
    if not placed:
        return plan
    names = sorted({*plan.placements, *placed})
    return replace(plan, placements={name: (*placed.get(name, ()), *plan.placements.get(name, ())) for name in names})
