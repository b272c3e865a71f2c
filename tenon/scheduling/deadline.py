"""When a solve must come to an end with what it has.

The engine has no clock. Whoever asks hands in a question that is put between steps; once the answer is yes it stays so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from tenon.kube.pod import Pod
from tenon.scheduling.model import Plan

Expired: TypeAlias = Callable[[], bool]


def never() -> bool:
    """There is no limit."""
    return False


def without_rules(plan: Plan) -> Plan:
    """The plan without what depends on rules between pods; these pods were not reached.

    For a plan that ended before all domains were compared, in which such rules may be broken.
    """
    claims = tuple(claim for claim in plan.claims if not any(pod.rules for pod in claim.pods))
    kept = {name: tuple(pod for pod in pods if not pod.rules) for name, pods in plan.placements.items()}
    reached = {pod.key for claim in claims for pod in claim.pods} | _keys(kept)
    dropped = ({pod.key for claim in plan.claims for pod in claim.pods} | _keys(plan.placements)) - reached
    return replace(
        plan,
        claims=claims,
        placements={name: pods for name, pods in kept.items() if pods},
        unreached=plan.unreached | dropped,
    )


def _keys(placements: Mapping[str, tuple[Pod, ...]]) -> set[str]:
    return {pod.key for pods in placements.values() for pod in pods}
