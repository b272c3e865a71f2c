"""Isolates the pods that make the engine raise, so that an engine fault affects only those pods and no others.

Pods that are alike form a kind and stay together. The kinds are bisected repeatedly. Kinds with which the engine does
not raise are kept, one after another. A kind that makes it raise together with the kept ones is set apart. This works
whether a single kind is the cause or a combination of two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tenon.kube.pod import Pod
from tenon.scheduling.deadline import Expired
from tenon.scheduling.model import Plan, Problem

MAX_SOLVES = 40
"""The most engine calls for one batch. Pods that are not isolated by then wait."""

Solve: TypeAlias = Callable[[Problem, Expired], Plan]


@dataclass(frozen=True, slots=True)
class IsolatedPlan:
    """The plan for all pods except those that are set apart."""

    plan: Plan
    apart: Mapping[str, str] = field(default_factory=dict)
    """The engine's error by the key of each pod that is not in the plan."""
    error: Exception | None = None
    failing: Problem | None = None
    """The smallest known problem on which the engine raises ``error``."""


def solve_isolated(problem: Problem, expired: Expired, solve: Solve) -> IsolatedPlan:
    """Solve a problem. If the engine raises, solve it for the pods on which it does not."""
    good: list[Pod] = []
    causes: list[Sequence[Pod]] = []
    isolated_plan = IsolatedPlan(Plan())
    waiting: list[Sequence[Sequence[Pod]]] = [_kinds(problem.pods)]
    solves = 0
    while waiting:
        chunk = waiting.pop(0)
        tried = replace(problem, pods=[*good, *(pod for kind in chunk for pod in kind)])
        if solves >= MAX_SOLVES or (solves and expired()):
            isolated_plan = _isolate(isolated_plan, chunk)
            continue
        solves += 1
        try:
            plan = solve(tried, expired)
        except Exception as error:  # a fault of the engine must not stop other pods
            if isolated_plan.failing is None or len(tried.pods) <= len(isolated_plan.failing.pods):
                isolated_plan = replace(isolated_plan, error=error, failing=tried)
            half = len(chunk) // 2
            if half:
                waiting[:0] = [chunk[:half], chunk[half:]]
            else:
                isolated_plan = _isolate(isolated_plan, chunk, error)
                causes.append(chunk[0])
        else:
            good = list(tried.pods)
            isolated_plan = replace(isolated_plan, plan=plan)
    return _smaller_failure(isolated_plan, causes, expired, solve)


def _smaller_failure(
    isolated_plan: IsolatedPlan, causes: Sequence[Sequence[Pod]], expired: Expired, solve: Solve
) -> IsolatedPlan:
    """Replace the failing problem with a smaller one, if the engine raises on the first cause alone."""
    if isolated_plan.failing is None or not causes or expired():
        return isolated_plan
    alone = replace(isolated_plan.failing, pods=causes[0])
    try:
        solve(alone, expired)
    except Exception as error:  # as in `solve_isolated`
        return replace(isolated_plan, error=error, failing=alone)
    return isolated_plan


def _isolate(
    isolated_plan: IsolatedPlan, chunk: Sequence[Sequence[Pod]], error: Exception | None = None
) -> IsolatedPlan:
    cause = error or isolated_plan.error
    why = f"{type(cause).__name__}: {cause}"
    return replace(isolated_plan, apart={**isolated_plan.apart, **{pod.key: why for kind in chunk for pod in kind}})


def _kinds(pods: Sequence[Pod]) -> list[list[Pod]]:
    """Group pods that differ only in name and age."""
    kinds: dict[object, list[Pod]] = {}
    for pod in pods:
        alike_pods = (
            pod.namespace,
            pod.workload,
            pod.buffer,
            tuple(sorted(pod.requests.items())),
            tuple(sorted(pod.labels.items())),
            pod.required_terms,
            pod.tolerations,
            pod.host_ports,
            pod.rules,
            pod.volume_terms,
            pod.attachments,
            pod.unsupported,
        )
        kinds.setdefault(alike_pods, []).append(pod)
    return list(kinds.values())
