"""CapacityBuffers that are accepted or refused (CB-01 to CB-03)."""

from __future__ import annotations

from typing import Any

import pytest

from tenon.apis.capacitybuffer import CapacityBuffer
from tenon.apis.validation import parse
from tests.tenon.apis.case import REMOVED, edited
from tests.tenon.apis.sample_buffer import BASE

FOLLOWS = {"podTemplateRef": REMOVED, "scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"}}


@pytest.mark.parametrize(
    "edits",
    [
        {},
        {"replicas": 0},
        {"replicas": REMOVED, "limits": {"cpu": "4"}},
        {"provisioningStrategy": "example.com/mine"},
        FOLLOWS | {"replicas": REMOVED, "percentage": 10},
        FOLLOWS | {"scalableRef": {"kind": "ReplicaSet", "name": "x"}},
        FOLLOWS | {"scalableRef": {"kind": "StatefulSet", "name": "x"}},
        FOLLOWS | {"scalableRef": {"kind": "Job", "name": "other autoscalers follow it"}},
    ],
    ids=str,
)
def test_accepted(edits: dict[str, Any]) -> None:
    buffer, problems = parse(CapacityBuffer, edited(BASE, edits))
    assert buffer is not None
    assert problems == []


@pytest.mark.parametrize(
    ("edits", "why"),
    [
        ({"podTemplateRef": REMOVED}, "exactly one of podTemplateRef and scalableRef"),
        ({"scalableRef": {"kind": "Deployment", "name": "web"}}, "exactly one of podTemplateRef and scalableRef"),
        ({"replicas": REMOVED}, "podTemplateRef requires replicas or limits"),
        ({"replicas": REMOVED, "percentage": 5}, "podTemplateRef requires replicas or limits"),
        ({"replicas": -1}, "spec.replicas"),
        (FOLLOWS | {"percentage": -1}, "spec.percentage"),
        ({"limits": {"cpu": "-1"}}, "it must not be negative"),
        (FOLLOWS | {"scalableRef": {"kind": "", "name": "x"}}, "spec.scalableRef.kind"),
        (FOLLOWS | {"scalableRef": {"kind": "Deployment"}}, "spec.scalableRef.name"),
    ],
    ids=str,
)
def test_refused(edits: dict[str, Any], why: str) -> None:
    _, problems = parse(CapacityBuffer, edited(BASE, edits))
    assert any(why in str(problem) for problem in problems), problems


def test_cb01_the_strategy_by_default() -> None:
    assert CapacityBuffer.model_validate(BASE).spec.provisioning_strategy == "buffer.x-k8s.io/active-capacity"
