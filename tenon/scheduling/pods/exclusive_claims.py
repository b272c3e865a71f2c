"""Lets pods that share a ReadWriteOncePod claim have a node one after another, as kube-scheduler does.

Only one pod at a time may use such a claim. A node for a second one would be bought in vain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tenon.kube.pod import Pod
from tenon.kube.pool_reasons import NoPlace
from tenon.scheduling.deadline import Expired
from tenon.scheduling.model import Plan, Problem

MAX_TURNS = 4
"""How many pods may turn out to fit nowhere before the others must wait for the next plan."""


@dataclass(frozen=True, slots=True)
class _Wait:
    holder: str
    """The key of the pod that has the claim, or gets it first."""
    reason: NoPlace


def in_turns(problem: Problem, plan_of: Callable[[Problem], Plan], expired: Expired) -> Plan:
    """Return the plan in which each claim is used by one pod at most, the first that has a place.

    ``plan_of`` plans a problem in which no two pods share such a claim.
    """
    if not any(pod.exclusive for pod in problem.pods):
        return plan_of(problem)
    hopeless: dict[str, NoPlace] = {}
    for _ in range(MAX_TURNS):
        waits = _waits(problem, hopeless)
        apart = hopeless | {key: wait.reason for key, wait in waits.items()}
        plan = plan_of(replace(problem, pods=[pod for pod in problem.pods if pod.key not in apart]))
        blocking = {wait.holder for wait in waits.values()} & plan.unschedulable.keys()
        if not blocking or expired():
            break
        hopeless |= {key: plan.unschedulable[key] for key in blocking}
    return replace(plan, unschedulable=dict(sorted((apart | dict(plan.unschedulable)).items())))


def _waits(problem: Problem, hopeless: Mapping[str, NoPlace]) -> dict[str, _Wait]:
    """By key, the pods that must wait for another one to release a claim. ``hopeless`` pods keep no claim."""
    terminating = {claim: user for node in problem.nodes for claim, user in node.terminating_users.items()}
    running = {claim: pod.key for node in problem.nodes for pod in node.pods for claim in pod.exclusive}
    users = terminating | running
    waits: dict[str, _Wait] = {}
    for pod in sorted((pod for pod in problem.pods if pod.exclusive and not pod.unsupported), key=_turn):
        if pod.key in hopeless:
            continue
        used_claim = next((claim for claim in pod.exclusive if users.get(claim, pod.key) != pod.key), "")
        if not used_claim:
            users.update(dict.fromkeys(pod.exclusive, pod.key))
            continue
        holder = users[used_claim]
        if used_claim in running:
            use = f"in use by pod {holder}: stop that pod first"
        elif used_claim in terminating:
            use = f"in use by pod {holder}, which is terminating"
        else:
            use = f"pod {holder}, which is placed first, uses it too: stop that pod first"
        reason = f"its volume claim {used_claim} is ReadWriteOncePod and {use}"
        waits[pod.key] = _Wait(holder, NoPlace.of(reason))
    return waits


def _turn(pod: Pod) -> tuple[object, ...]:
    """The order in which kube-scheduler places pods. A pod that must leave its node has its claims already."""
    return (not pod.node_name, -pod.priority, pod.created, pod.uid, pod.key)
