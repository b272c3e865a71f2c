"""The sentence about each node that leaves: why, who asked for it, what it was (EVT-04)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tenon.apis import labels
from tenon.kube.claim_record import ClaimRecord
from tenon.messages.base import ActivityName, ClaimRef
from tenon.messages.launch import Instance
from tenon.messages.node import Disrupt, Poke, Removal
from tenon.messages.node_steps import CordonInput, CordonResult, DrainInput
from tenon.node import machine
from tenon.node.leave_text import SOMEBODY, life, recorded, removal_of, why_it_leaves, with_removal
from tenon.node.state import NodeState, Stage
from tenon.node.steps import DeadlinePassed, LeaveRequest, Run
from tenon.sentences import lasting
from tests.activities.node.fake_kube import START

NOW = START + timedelta(minutes=3)
INSTANCE = Instance(
    id="i-1",
    provider_id="aws:///us-west-2a/i-1",
    instance_type="c7i-flex.2xlarge",
    zone="us-west-2a",
    capacity_type="spot",
    image_id="ami-1",
    price=0.1187,
    launched_at=START,
)
LIFE = "c7i-flex.2xlarge, $0.1187 an hour, lived 3m"
INTERRUPTED = Removal(
    reason="spot_interrupted", detail="EC2 interrupts the spot instance", actor="controller interruption"
)
REPAIRED = Removal(reason="unhealthy", detail="Ready is False for 30m", actor="controller node.health")
EMPTY_SINCE = NOW - timedelta(seconds=15)


def live(**fields: Any) -> NodeState:
    claim = ClaimRef(cluster="sandbox", name="web-1", uid="u")
    return NodeState(claim=claim, stage=Stage.LIVE, created_at=START, instance=INSTANCE, **fields)


@pytest.mark.parametrize(
    ("state", "event", "why"),
    [
        (live(), Disrupt(command="c-1", reason="Empty", since=EMPTY_SINCE), "Empty for 15s (command c-1)"),
        (live(), Disrupt(command="c-1", reason="Drifted"), "Drifted (command c-1)"),
        (live(), Disrupt(command="c-1", reason="Underutilized"), "Underutilized (command c-1)"),
        (live(expires_at=NOW), DeadlinePassed(), "Expired: its time to live is over (the node's workflow)"),
        (live(), LeaveRequest(reason="drain", actor="ann@laptop"), "Drain (ann@laptop)"),
        (live(), LeaveRequest(reason="force_drain", actor="ann@laptop", force=True), "ForceDrain (ann@laptop)"),
        (live(), Poke(claim_deleting=True), f"Deleted: the NodeClaim was deleted ({SOMEBODY})"),
        (live(), Poke(node_deleting=True), f"Deleted: the Node was deleted ({SOMEBODY})"),
        (
            live(),
            Poke(claim_deleting=True, removals=(INTERRUPTED,)),
            "SpotInterrupted: EC2 interrupts the spot instance (controller interruption)",
        ),
        (live(), Poke(instance_gone=True), "GarbageCollected: i-1 is gone from EC2 (garbage collection)"),
    ],
)
def test_evt04_each_cause_has_its_sentence(state: NodeState, event: Any, why: str) -> None:
    remainder = machine.apply(state, event, NOW)
    assert why_it_leaves(remainder) == why
    assert life(remainder) == LIFE
    step = machine.next_step(remainder, NOW)
    assert isinstance(step, Run)
    assert isinstance(step.input, CordonInput)
    assert (step.input.why, step.input.life) == (why, LIFE)
    drains = machine.apply(remainder, CordonResult(node_name="node-1"), NOW)
    step = machine.next_step(drains, NOW + timedelta(minutes=1))
    assert isinstance(step, Run)
    assert step.activity is ActivityName.DRAIN
    assert isinstance(step.input, DrainInput)
    assert step.input.why == why


def test_the_sentence_stays_the_same_while_the_node_leaves() -> None:
    """Repetitions then count up one event."""
    remainder = machine.apply(live(), Disrupt(command="c-1", reason="Empty", since=EMPTY_SINCE), NOW)
    step = machine.next_step(remainder, NOW + timedelta(hours=1))
    assert isinstance(step, Run)
    assert isinstance(step.input, CordonInput)
    assert (step.input.why, step.input.life) == ("Empty for 15s (command c-1)", LIFE)


def test_a_node_without_an_instance_or_a_price_has_a_shorter_sentence() -> None:
    remainder = machine.apply(live(), LeaveRequest(reason="drain"), NOW)
    assert why_it_leaves(remainder) == "Drain"
    assert life(remainder.model_copy(update={"instance": None})) == ""
    unpriced = INSTANCE.model_copy(update={"price": 0.0, "launched_at": None})
    assert life(remainder.model_copy(update={"instance": unpriced})) == "c7i-flex.2xlarge, lived 3m"
    assert (why_it_leaves(live()), life(live())) == ("", "")


def test_a_nodeclaim_keeps_each_reason_once_and_the_first_one_first() -> None:
    annotations = with_removal({}, REPAIRED, deleting=False)
    assert recorded(annotations) == (REPAIRED,)
    assert with_removal(annotations, REPAIRED.model_copy(update={"actor": "kubectl"}), deleting=True) == {}
    assert recorded(with_removal(annotations, INTERRUPTED, deleting=True)) == (REPAIRED, INTERRUPTED)


DISRUPTED = {"type": "DisruptionReason", "status": "True", "reason": "Drifted"}
DRIFT = {"type": "Drifted", "status": "True", "reason": "AMIDrift", "message": "ami-2 is newer"}
REBOOTS = {"type": "Rebooting", "status": "True"}
KUBECTL = Removal(reason="deleted", detail="the NodeClaim was deleted", actor=SOMEBODY)


@pytest.mark.parametrize(
    ("conditions", "annotations", "removal"),
    [
        ([], {}, KUBECTL),
        ([DISRUPTED], with_removal({}, INTERRUPTED, deleting=False), INTERRUPTED),
        ([DISRUPTED], {}, Removal(reason="Drifted", actor="a disruption command")),
        (
            [DISRUPTED, DRIFT],
            {},
            Removal(reason="Drifted", detail="AMIDrift: ami-2 is newer", actor="a disruption command"),
        ),
        ([DISRUPTED], {labels.DISRUPTED_BY: "drifted-1"}, KUBECTL),
        ([DISRUPTED, REBOOTS], {}, KUBECTL),
    ],
    ids=["kubectl", "recorded", "Karpenter", "Karpenter, drift", "before Tenon's command", "while it reboots"],
)
def test_why_a_node_leaves_is_what_its_nodeclaim_says(
    conditions: list[dict[str, str]], annotations: dict[str, str], removal: Removal
) -> None:
    metadata = {"name": "web-1", "annotations": annotations, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert removal_of(ClaimRecord.of({"metadata": metadata, "status": {"conditions": conditions}})) == removal


def test_a_node_whose_nodeclaim_stays_leaves_because_the_node_was_deleted() -> None:
    assert removal_of(ClaimRecord.of({"metadata": {"name": "web-1"}})).detail == "the Node was deleted"


def test_a_deletion_that_nobody_recorded_comes_before_what_is_recorded_later() -> None:
    first, later = recorded(with_removal({}, INTERRUPTED, deleting=True))
    assert (first.reason, first.actor, later) == ("deleted", SOMEBODY, INTERRUPTED)


def test_what_a_nodeclaim_keeps_is_bounded() -> None:
    annotations: dict[str, str] = {}
    for number in range(9):
        long = Removal(reason=f"reason-{number}", detail="why " * 200)
        annotations = annotations | with_removal(annotations, long, deleting=True)
    assert len(recorded(annotations)) == 5
    assert len(annotations[labels.DELETED_BECAUSE]) < 2000


@pytest.mark.parametrize("written", ["", "I wanted to", "{}", "[1]", '[{"detail": "no reason"}]'])
def test_an_annotation_that_a_user_wrote_is_no_reason(written: str) -> None:
    assert recorded({labels.DELETED_BECAUSE: written}) == ()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0s"), (0, "0s"), (15, "15s"), (180, "3m"), (185, "3m5s"), (7500, "2h5m"), (86400, "1d"), (276000, "3d4h")],
)
def test_a_duration_has_its_two_largest_units(seconds: int, text: str) -> None:
    assert lasting(timedelta(seconds=seconds)) == text
