"""What NodeOverlays and CapacityBuffers say of themselves (NO-06, CB-05, CB-06)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenon.apis.capacitybuffer import CapacityBuffer
from tenon.apis.common import Condition
from tenon.provisioning.buffer_status import MAX_PODS, BufferSimulation, ResolvedBuffer, buffer_status, resolved
from tenon.provisioning.overlay_status import overlay_conditions
from tenon.provisioning.overlays import Overlaid
from tests.tenon.apis.case import edited
from tests.tenon.apis.sample_buffer import BASE

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
TEMPLATE = {"spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}}
STORED = {"metadata": {"name": "small", "generation": 3}, "template": TEMPLATE}
SCALED = {"metadata": {"name": "web"}, "spec": {"replicas": 8, "template": TEMPLATE}}
OF_TEMPLATE = {"podTemplateRef": {"name": "small"}, "replicas": 2}
OF_WORKLOAD = {"scalableRef": {"kind": "Deployment", "name": "web"}, "percentage": 25}


def buffer(spec: dict[str, Any]) -> CapacityBuffer:
    manifest = {**edited(BASE, {}), "metadata": {"name": "spare", "generation": 5}, "spec": spec}
    return CapacityBuffer.model_validate(manifest)


def told(conditions: list[Condition]) -> dict[str, tuple[str, str]]:
    return {condition.type: (condition.status, condition.reason) for condition in conditions}


def test_cb05_a_template_is_named_with_its_generation() -> None:
    capacity_buffer = buffer(OF_TEMPLATE)
    status = buffer_status(capacity_buffer, resolved(capacity_buffer, STORED), None, NOW)
    assert status.to_dict() == {
        "podTemplateRef": {"name": "small"},
        "podTemplateGeneration": 3,
        "replicas": 2,
        "provisioningStrategy": "buffer.x-k8s.io/active-capacity",
        "conditions": [
            {
                "type": "ReadyForProvisioning",
                "status": "True",
                "reason": "Resolved",
                "message": "",
                "lastTransitionTime": "2026-03-01T12:00:00Z",
                "observedGeneration": 5,
            }
        ],
    }


def test_cb05_of_a_workload_there_is_only_the_number() -> None:
    capacity_buffer = buffer(OF_WORKLOAD)
    status = buffer_status(capacity_buffer, resolved(capacity_buffer, SCALED), None, NOW)
    assert (status.replicas, status.pod_template_ref, status.pod_template_generation) == (2, None, None)


@pytest.mark.parametrize(
    ("spec", "result", "reason", "word"),
    [
        (OF_TEMPLATE, None, "PodTemplateNotFound", "PodTemplate small"),
        (OF_WORKLOAD, None, "ScalableRefNotFound", "Deployment web"),
        ({**OF_TEMPLATE, "replicas": MAX_PODS + 1}, STORED, "ResolutionFailed", "lower it"),
        (
            OF_TEMPLATE,
            {**STORED, "template": {"spec": {"containers": [{"resources": {"requests": {"cpu": "x"}}}]}}},
            "ResolutionFailed",
            "cannot be read",
        ),
    ],
)
def test_cb06_what_cannot_be_resolved_has_a_reason(
    spec: dict[str, Any], result: dict[str, Any] | None, reason: str, word: str
) -> None:
    capacity_buffer = buffer(spec)
    answer = resolved(capacity_buffer, result)
    status = buffer_status(capacity_buffer, answer, BufferSimulation(ready=2), NOW)
    assert told(status.conditions) == {
        "ReadyForProvisioning": ("False", reason),
        "Provisioning": ("False", "NotReadyForProvisioning"),
    }
    assert word in status.conditions[0].message
    assert answer.template is None


@pytest.mark.parametrize(
    ("count", "room", "status", "words"),
    [
        (0, None, ("False", "BufferEmpty"), "no pods"),
        (2, BufferSimulation(ready=2), ("True", "FitsExistingCapacity"), "all 2"),
        (2, BufferSimulation(ready=1, starting=1), ("False", "RequiresNewCapacity"), "1 on nodes that start"),
        (3, BufferSimulation(ready=1, refused="limits"), ("False", "RequiresNewCapacity"), "2 have none: limits"),
    ],
)
def test_cb06_whether_the_room_is_there(
    count: int, room: BufferSimulation | None, status: tuple[str, str], words: str
) -> None:
    resolved = ResolvedBuffer("Resolved", "", TEMPLATE, count)
    conditions = buffer_status(buffer(OF_TEMPLATE), resolved, room, NOW).conditions
    assert told(conditions)["Provisioning"] == status
    assert words in conditions[1].message


def test_no06_conflicts_and_faults_have_reasons_of_their_own_and_their_time() -> None:
    overlaid = Overlaid([], {"rival": "it changes the same", "absurd": "its price is too high"}, frozenset({"rival"}))

    def conditions(name: str, faults: tuple[str, ...] = (), before: tuple[Condition, ...] = ()) -> list[Condition]:
        return overlay_conditions(name, before, faults, overlaid, now=NOW + timedelta(hours=len(before)), generation=4)

    assert told(conditions("good")) == {
        "ValidationSucceeded": ("True", "ValidationSucceeded"),
        "Ready": ("True", "Ready"),
    }
    assert told(conditions("rival"))["ValidationSucceeded"] == ("False", "Conflict")
    assert told(conditions("rival"))["Ready"][0] == "False"
    assert told(conditions("absurd"))["ValidationSucceeded"] == ("False", "RuntimeValidation")
    broken = conditions("good", ("spec.price: is not a number",))
    assert told(broken)["ValidationSucceeded"] == ("False", "RuntimeValidation")
    assert broken[0].message == "spec.price: is not a number"
    again = conditions("good", before=tuple(conditions("good")))
    assert [condition.last_transition_time for condition in again] == [NOW, NOW], "nothing changed since"
