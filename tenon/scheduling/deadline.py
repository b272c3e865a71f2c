"""Lets a solve stop early and return what it has.

The engine has no clock. The caller passes a function that the engine calls between steps. Once it returns True, it must
keep returning True.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from tenon.kube.pod import Pod
from tenon.scheduling.model import Plan

Expired: TypeAlias = Callable[[], bool]


def never() -> bool:
    """No time limit."""
    return False


def without_rules(plan: Plan) -> Plan:
    """Return the plan without anything that depends on rules between pods. The dropped pods count as unreached.

    If a plan ended before all domains were compared, it may break such rules.
    """
    claims = tuple(claim for claim in plan.claims if not any(pod.rules for pod in claim.pods))
    placements = {name: tuple(pod for pod in pods if not pod.rules) for name, pods in plan.placements.items()}
    reached = {pod.key for claim in claims for pod in claim.pods} | _keys(placements)
    dropped = ({pod.key for claim in plan.claims for pod in claim.pods} | _keys(plan.placements)) - reached
    return replace(
        plan,
        claims=claims,
        placements={name: pods for name, pods in placements.items() if pods},
        unreached=plan.unreached | dropped,
    )


def _keys(placements: Mapping[str, tuple[Pod, ...]]) -> set[str]:
    return {pod.key for pods in placements.values() for pod in pods}
