"""Finds the pods on which the engine raises, so that a fault of the engine costs these pods their plan and no others.

Pods that are alike are told apart by nothing, so they stay together. The kinds are halved again and again: those with
which the engine does not raise are kept, one by one, and whatever it raises on beside them is set apart. So it does not
matter whether one kind is the cause or two that meet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tenon.kube.pod import Pod
from tenon.scheduling.deadline import Expired
from tenon.scheduling.model import Plan, Problem

MOST_SOLVES = 40
"""So often the engine is asked for one batch; what is not told apart by then waits."""

Solve: TypeAlias = Callable[[Problem, Expired], Plan]


@dataclass(frozen=True, slots=True)
class Narrowed:
    """The plan for all pods but those that are set apart."""

    plan: Plan
    apart: Mapping[str, str] = field(default_factory=dict)
    """By the key of each pod that is in no part of the plan, the error of the engine."""
    error: Exception | None = None
    failing: Problem | None = None
    """The smallest problem that is known on which the engine raises ``error``."""


def narrowed(problem: Problem, expired: Expired, solve: Solve) -> Narrowed:
    """Solve a problem; where the engine raises, for the pods on which it does not."""
    good: list[Pod] = []
    causes: list[Sequence[Pod]] = []
    found = Narrowed(Plan())
    waiting: list[Sequence[Sequence[Pod]]] = [_kinds(problem.pods)]
    solves = 0
    while waiting:
        chunk = waiting.pop(0)
        tried = replace(problem, pods=[*good, *(pod for kind in chunk for pod in kind)])
        if solves >= MOST_SOLVES or (solves and expired()):
            found = _set_apart(found, chunk)
            continue
        solves += 1
        try:
            plan = solve(tried, expired)
        except Exception as error:  # whatever is wrong in the engine, other pods must not wait for it
            if found.failing is None or len(tried.pods) <= len(found.failing.pods):
                found = replace(found, error=error, failing=tried)
            half = len(chunk) // 2
            if half:
                waiting[:0] = [chunk[:half], chunk[half:]]
            else:
                found = _set_apart(found, chunk, error)
                causes.append(chunk[0])
        else:
            good = list(tried.pods)
            found = replace(found, plan=plan)
    return _without_others(found, causes, expired, solve)


def _without_others(found: Narrowed, causes: Sequence[Sequence[Pod]], expired: Expired, solve: Solve) -> Narrowed:
    """With a smaller problem, where the engine raises on the first of the causes alone."""
    if found.failing is None or not causes or expired():
        return found
    alone = replace(found.failing, pods=causes[0])
    try:
        solve(alone, expired)
    except Exception as error:  # as before
        return replace(found, error=error, failing=alone)
    return found


def _set_apart(found: Narrowed, chunk: Sequence[Sequence[Pod]], error: Exception | None = None) -> Narrowed:
    cause = error or found.error
    why = f"{type(cause).__name__}: {cause}"
    return replace(found, apart={**found.apart, **{pod.key: why for kind in chunk for pod in kind}})


def _kinds(pods: Sequence[Pod]) -> list[list[Pod]]:
    """The pods, those together that only their names and ages tell apart."""
    kinds: dict[object, list[Pod]] = {}
    for pod in pods:
        alike = (
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
        kinds.setdefault(alike, []).append(pod)
    return list(kinds.values())
