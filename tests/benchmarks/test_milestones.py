"""When objects got where, from the events of a watch."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.milestones import Milestones, claim_stages, pod_stages

Object = dict[str, Any]


def pod(uid: str, *, node: str = "", phase: str = "Pending", refused: bool = False) -> Object:
    conditions = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}] if refused else []
    return {"metadata": {"uid": uid}, "spec": {"nodeName": node}, "status": {"phase": phase, "conditions": conditions}}


def seen(*events: tuple[float, str, Object]) -> Milestones:
    now = 0.0
    milestones = Milestones(pod_stages, clock=lambda: now)
    for at, kind, body in events:
        now = at
        milestones.note({"type": kind, "object": body})
    return milestones


def test_a_stage_is_reached_once_and_stays_reached() -> None:
    milestones = seen(
        (1.0, "ADDED", pod("a")),
        (2.0, "MODIFIED", pod("a", refused=True)),
        (3.0, "MODIFIED", pod("a", node="n", phase="Running")),
        (9.0, "MODIFIED", pod("a", node="n", phase="Running")),
        (9.5, "DELETED", pod("a", node="n", phase="Running")),
    )
    assert {stage: at["a"] for stage, at in milestones.reached.items()} == {
        "created": 1.0,
        "refused by kube-scheduler": 2.0,
        "bound": 3.0,
        "Running": 3.0,
    }
    assert milestones.objects == {}
    assert milestones.count("Running") == 1


def test_the_spread_is_first_middle_and_last() -> None:
    milestones = seen(*((float(at), "ADDED", pod(str(at))) for at in (3, 5, 4)))
    assert milestones.spread("created", 1.0) == (2.0, 3.0, 4.0)
    assert milestones.spread("Running", 1.0) is None


def test_only_true_conditions_of_a_nodeclaim_are_stages() -> None:
    conditions = [{"type": "Launched", "status": "True"}, {"type": "Registered", "status": "Unknown"}]
    assert list(claim_stages({"status": {"conditions": [*conditions, {"type": "Ready", "status": "True"}]}})) == [
        "created",
        "Launched",
    ]


async def test_what_is_not_reached_in_time_is_an_error() -> None:
    milestones = seen((1.0, "ADDED", pod("a")))
    await milestones.until("created", 1, 1.0)
    with pytest.raises(TimeoutError):
        await milestones.until("Running", 1, 0.0)
