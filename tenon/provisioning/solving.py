"""One batch from its problem to a plan: pods first, then the room that CapacityBuffers keep.

A buffer must never cost a pod its place. So pods that wait take the room that is there before buffers do; new nodes are
then sized for both together; and where limits leave no room for both, the buffers wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tenon.provisioning.problem import with_pods
from tenon.scheduling.engine import solve
from tenon.scheduling.model import Plan, Pod, Problem

CROWDED = "there is no room for it beside the pods that wait"


def solved(problem: Problem) -> Plan:
    """The plan for pods, and for the pods that buffers stand for.

    One that has the namespace and name of a pod that exists is left out.
    """
    waiting = [pod for pod in problem.pods if not pod.buffer]
    names = {pod.key for pod in waiting}
    standing = [pod for pod in problem.pods if pod.buffer and pod.key not in names]
    if not standing:
        return solve(replace(problem, pods=waiting))
    first = solve(replace(problem, pods=waiting)) if waiting else Plan()
    taken = replace(problem, nodes=[with_pods(node, first.placements.get(node.name, ())) for node in problem.nodes])
    to_buy_for = [pod for claim in first.claims for pod in claim.pods]
    both = solve(replace(taken, pods=[*to_buy_for, *standing]))
    if not any(pod.key in both.unschedulable for pod in to_buy_for):
        return Plan(both.claims, _joined(first, both), _told(first, both))
    there = solve(replace(taken, pods=standing, pools=[]))
    refused = {**first.unschedulable, **dict.fromkeys(there.unschedulable, CROWDED)}
    return Plan(first.claims, _joined(first, there), {key: refused[key] for key in sorted(refused)})


def buffer_pods(pods: Sequence[Pod]) -> dict[str, list[Pod]]:
    """Those of the pods that stand for buffers, by buffer."""
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        if pod.buffer:
            found.setdefault(pod.buffer, []).append(pod)
    return found


def _joined(first: Plan, second: Plan) -> Mapping[str, tuple[Pod, ...]]:
    names = dict.fromkeys([*first.placements, *second.placements])
    return {name: (*first.placements.get(name, ()), *second.placements.get(name, ())) for name in names}


def _told(first: Plan, second: Plan) -> Mapping[str, str]:
    told = {**first.unschedulable, **second.unschedulable}
    return {key: told[key] for key in sorted(told)}
