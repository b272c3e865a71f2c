"""The sentence about each node that leaves: why, who asked for it, what it was (EVT-04)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tenon.apis import labels
from tenon.lifecycle import machine
from tenon.lifecycle.leave_text import life, recorded_why, why_it_leaves
from tenon.lifecycle.messages.base import ActivityName, ClaimRef
from tenon.lifecycle.messages.launch import Instance
from tenon.lifecycle.messages.node import CordonInput, CordonResult, Disrupt, DrainInput, Poke
from tenon.lifecycle.state import NodeState, PendingDisruption, Stage
from tenon.lifecycle.steps import DeadlinePassed, LeaveRequest, Run
from tenon.sentences import lasting
from tests.lifecycle_k8s.fake_kube import START

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
LIFE = "c7i-flex.2xlarge, $0.1187/h, lived 3m"
EMPTY_SINCE = NOW - timedelta(seconds=15)


def live(**fields: Any) -> NodeState:
    claim = ClaimRef(cluster="sandbox", name="web-1", uid="u")
    return NodeState(claim=claim, stage=Stage.LIVE, created_at=START, instance=INSTANCE, **fields)


def pending(due: timedelta) -> PendingDisruption:
    return PendingDisruption(command="c-1", reason="Empty", due=NOW + due, since=EMPTY_SINCE)


@pytest.mark.parametrize(
    ("state", "event", "why"),
    [
        (live(), Disrupt(command="c-1", reason="Empty", since=EMPTY_SINCE), "Empty for 15s (command c-1)"),
        (live(pending=pending(timedelta())), DeadlinePassed(), "Empty for 15s (command c-1)"),
        (live(), Disrupt(command="c-1", reason="Drifted"), "Drifted (command c-1)"),
        (live(), Disrupt(command="c-1", reason="Underutilized"), "Underutilized (command c-1)"),
        (live(expires_at=NOW), DeadlinePassed(), "Expired: its time to live is over"),
        (live(), LeaveRequest(reason="drain", message="asked for by an operator"), "Drain: asked for by an operator"),
        (
            live(),
            LeaveRequest(reason="force_drain", message="asked for by an operator", force=True),
            "ForceDrain: asked for by an operator",
        ),
        (live(), Poke(claim_deleting=True), "Deleted: the NodeClaim was deleted"),
        (live(), Poke(node_deleting=True), "Deleted: the Node was deleted"),
        (live(), Poke(instance_gone=True), "GarbageCollected: i-1 is gone from EC2"),
    ],
)
def test_evt04_each_cause_has_its_sentence(state: NodeState, event: Any, why: str) -> None:
    left = machine.apply(state, event, NOW)
    assert why_it_leaves(left) == why
    assert life(left) == LIFE
    step = machine.next_step(left, NOW)
    assert isinstance(step, Run)
    assert isinstance(step.input, CordonInput)
    assert (step.input.why, step.input.life) == (why, LIFE)
    drains = machine.apply(left, CordonResult(node_name="node-1"), NOW)
    step = machine.next_step(drains, NOW + timedelta(minutes=1))
    assert isinstance(step, Run)
    assert step.activity is ActivityName.DRAIN
    assert isinstance(step.input, DrainInput)
    assert step.input.why == why


def test_the_sentence_stays_the_same_while_the_node_leaves() -> None:
    """Repetitions then count up one event."""
    left = machine.apply(live(), Disrupt(command="c-1", reason="Empty", since=EMPTY_SINCE), NOW)
    step = machine.next_step(left, NOW + timedelta(hours=1))
    assert isinstance(step, Run)
    assert isinstance(step.input, CordonInput)
    assert (step.input.why, step.input.life) == ("Empty for 15s (command c-1)", LIFE)


def test_a_node_without_an_instance_or_a_price_has_a_shorter_sentence() -> None:
    left = machine.apply(live(), LeaveRequest(reason="drain"), NOW)
    assert why_it_leaves(left) == "Drain"
    assert life(left.model_copy(update={"instance": None})) == ""
    unpriced = INSTANCE.model_copy(update={"price": 0.0, "launched_at": None})
    assert life(left.model_copy(update={"instance": unpriced})) == "c7i-flex.2xlarge, lived 3m"
    assert (why_it_leaves(live()), life(live())) == ("", "")


def test_what_deleted_the_claim_says_why_there() -> None:
    recorded = {labels.DELETED_BECAUSE: "Interrupted: EC2 interrupts the spot instance"}
    assert recorded_why("Deleted: x", "deleted", recorded) == "Interrupted: EC2 interrupts the spot instance"
    assert recorded_why("Deleted: x", "deleted", {}) == "Deleted: x"
    assert recorded_why("Drain: x", "drain", recorded) == "Drain: x", "it was asked before the deletion"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0s"), (0, "0s"), (15, "15s"), (180, "3m"), (185, "3m5s"), (7500, "2h5m"), (86400, "1d"), (276000, "3d4h")],
)
def test_a_duration_has_its_two_largest_units(seconds: int, text: str) -> None:
    assert lasting(timedelta(seconds=seconds)) == text
