"""Why a node left and who removed it, from each cause to the timeline, the Temporal UI's details and the result."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from tenon.apis import labels
from tenon.apis.reasons import camel_case
from tenon.messages.base import ActivityName, Message
from tenon.messages.launch import ClaimView, LaunchResult, PrepareLaunchResult
from tenon.messages.node import Disrupt, Poke, Removal
from tenon.messages.node_steps import CordonInput, ExpirationResult, InitializeResult, RegisterResult, ReleaseInput
from tenon.node import machine
from tenon.node.leave_text import SOMEBODY, WORKFLOW, recorded
from tenon.node.state import NodeState, Stage
from tenon.node.steps import DeadlinePassed, Failed, LeaveRequest, Run
from tenon.node.timeline import details, result_of
from tests.tenon.node.launched import INSTANCE, NOW, REF, VIEW, at_live

INTERRUPTED = Removal(reason="spot_interrupted", detail="EC2 interrupts it", actor="controller interruption")
REPAIRED = Removal(reason="unhealthy", detail="Ready is False for 30m", actor="controller node.health")
EMPTY = Disrupt(command="empty-1", reason="Empty")
DELETED = Removal(reason="deleted", detail="the NodeClaim was deleted", actor=SOMEBODY)
REGISTERING = NodeState(claim=REF, stage=Stage.REGISTERING, instance=INSTANCE)
LATE = NOW + timedelta(hours=1)


def at(stage: Stage, **fields: Any) -> NodeState:
    return NodeState(claim=REF, stage=stage, instance=INSTANCE, **fields)


WAYS: list[tuple[str, NodeState, Message, Removal]] = [
    ("interruption", at_live(), Poke(claim_deleting=True, removals=(INTERRUPTED,)), INTERRUPTED),
    (
        "interruption of a node that starts",
        REGISTERING,
        Poke(claim_deleting=True, removals=(INTERRUPTED,)),
        INTERRUPTED,
    ),
    ("repair", at_live(), Poke(claim_deleting=True, removals=(REPAIRED,)), REPAIRED),
    ("two reasons", at_live(), Poke(claim_deleting=True, removals=(REPAIRED, INTERRUPTED)), REPAIRED),
    (
        "repair, with a workflow that is started again",
        NodeState(claim=REF),
        PrepareLaunchResult(view=VIEW.model_copy(update={"deleting": True, "removals": (REPAIRED,)})),
        REPAIRED,
    ),
    ("kubectl delete nodeclaim", at_live(), Poke(claim_deleting=True), DELETED),
    (
        "kubectl delete node",
        at_live(),
        Poke(node_deleting=True),
        Removal(reason="deleted", detail="the Node was deleted", actor=SOMEBODY),
    ),
    ("a claim that vanished", at_live(), Poke(claim_deleting=True, claim_gone=True), DELETED),
    (
        "an instance that vanished",
        at_live(),
        Poke(instance_gone=True),
        Removal(reason="garbage_collected", detail=f"{INSTANCE.id} is gone from EC2", actor="garbage collection"),
    ),
    ("command", at_live(), EMPTY, Removal(reason="Empty", actor="command empty-1")),
    (
        "command with a detail",
        at_live(),
        Disrupt(command="d-1", reason="Drifted", detail="its AMI is old"),
        Removal(reason="Drifted", detail="its AMI is old", actor="command d-1"),
    ),
    (
        "expiry",
        at_live(expires_at=NOW),
        DeadlinePassed(),
        Removal(reason="expired", detail="its time to live is over", actor=WORKFLOW),
    ),
    (
        "expiry that asked its NodePool first",
        at_live(pool="web", expired=True),
        ExpirationResult(waits=False),
        Removal(reason="expired", detail="its time to live is over", actor=WORKFLOW),
    ),
    (
        "an operator",
        at_live(),
        LeaveRequest(reason="drain", actor="ann@laptop"),
        Removal(reason="drain", actor="ann@laptop"),
    ),
    (
        "EC2 has no capacity",
        NodeState(claim=REF, stage=Stage.LAUNCHING),
        LaunchResult(reason="insufficient_capacity", message="no m5"),
        Removal(reason="insufficient_capacity", detail="no m5", actor=WORKFLOW),
    ),
    (
        "nothing to launch",
        NodeState(claim=REF),
        PrepareLaunchResult(view=ClaimView(exists=True), reason="nodeclass_not_ready", message="no subnet"),
        Removal(reason="nodeclass_not_ready", detail="no subnet", actor=WORKFLOW),
    ),
    (
        "a launch that failed for good",
        NodeState(claim=REF, stage=Stage.LAUNCHING),
        Failed(activity=ActivityName.LAUNCH, message="boom"),
        Removal(reason="launch_timeout", detail="boom", actor=WORKFLOW),
    ),
    (
        "no Node",
        at(Stage.REGISTERING, last_check=True),
        RegisterResult(reason="NodeNotFound"),
        Removal(
            reason="registration_timeout", detail=f"no Node joined for {INSTANCE.id} within 15 minutes", actor=WORKFLOW
        ),
    ),
    (
        "a Node that does not become ready",
        at(Stage.INITIALIZING, registered_at=NOW - timedelta(minutes=20), initialization_timeout_seconds=60.0),
        InitializeResult(reason="NodeNotReady"),
        Removal(
            reason="initialization_timeout",
            detail="not initialized 20 minutes after its registration: NodeNotReady",
            actor=WORKFLOW,
        ),
    ),
]


@pytest.mark.parametrize(("state", "event", "why"), [way[1:] for way in WAYS], ids=[way[0] for way in WAYS])
def test_evt04_each_way_to_leave_says_why_and_who(state: NodeState, event: Message, why: Removal) -> None:
    remainder = machine.apply(state, event, NOW)
    assert remainder.stage is Stage.CORDONING
    text = f"{camel_case(why.reason)}{': ' if why.detail else ''}{why.detail} ({why.actor})"
    assert f"leaving: {text}" in [entry.text for entry in remainder.timeline]
    workflow = text.replace("(command ", "(workflow disruption-command/c/")
    assert f"- Leaving: {workflow}" in details(remainder)
    result = result_of(remainder, LATE)
    assert (result.reason, result.detail, result.actor) == (why.reason, why.detail, why.actor)
    step = machine.next_step(remainder, NOW)
    assert isinstance(step, Run)
    assert isinstance(step.input, CordonInput)
    assert step.input.removal == why


def test_evt04_the_first_reason_stays_and_others_are_lines_of_the_timeline() -> None:
    """EC2 interrupts a node that a command drains, and an operator asks for a drain too."""
    remainder = machine.apply(at_live(), EMPTY, NOW)
    own = remainder.leave.plain if remainder.leave else REPAIRED
    poke = Poke(claim_deleting=True, removals=(own, INTERRUPTED))
    remainder = machine.apply(remainder, poke, LATE)
    remainder = machine.apply(remainder, LeaveRequest(reason="drain", actor="ann@laptop"), LATE)
    assert [entry.text for entry in remainder.timeline][-3:] == [
        "leaving: Empty (command empty-1)",
        "another reason to leave: SpotInterrupted: EC2 interrupts it (controller interruption)",
        "another reason to leave: Drain (ann@laptop)",
    ]
    assert machine.apply(remainder, poke, LATE) == remainder, "the same poke again adds nothing"
    assert (result_of(remainder, LATE).reason, result_of(remainder, LATE).actor) == ("Empty", "command empty-1")


def test_evt04_a_forced_drain_keeps_the_reason() -> None:
    remainder = machine.apply(at_live(), Poke(claim_deleting=True, removals=(REPAIRED,)), NOW)
    remainder = machine.apply(remainder, LeaveRequest(reason="force_drain", actor="ann@laptop", force=True), LATE)
    assert result_of(remainder, LATE).detail == REPAIRED.detail
    assert "(ann@laptop)" in remainder.timeline[-1].text


def test_evt04_a_deletion_gets_its_reason_later_if_recording_it_failed_at_first() -> None:
    remainder = machine.apply(at_live(), Poke(claim_deleting=True), NOW)
    remainder = machine.apply(remainder, Poke(claim_deleting=True, removals=(INTERRUPTED,)), LATE)
    result = result_of(remainder, LATE)
    assert (result.reason, result.detail, result.actor) == (INTERRUPTED.reason, INTERRUPTED.detail, INTERRUPTED.actor)
    assert "deleted because of SpotInterrupted" in remainder.timeline[-1].text
    later = machine.apply(remainder, Poke(claim_deleting=True, removals=(DELETED, REPAIRED)), LATE)
    assert result_of(later, LATE).reason == INTERRUPTED.reason


@pytest.mark.parametrize("request_", [LeaveRequest(reason="drain", actor="ann@laptop"), LeaveRequest(reason="expire")])
def test_evt04_an_operator_does_not_become_the_author_of_a_deletion(request_: LeaveRequest) -> None:
    remainder = machine.apply(at_live(), Poke(claim_deleting=True), NOW)
    remainder = machine.apply(remainder, request_, LATE)
    assert (result_of(remainder, LATE).reason, result_of(remainder, LATE).actor) == ("deleted", SOMEBODY)
    assert remainder.timeline[-1].text.startswith("another reason to leave: ")


def test_a_reason_that_a_user_wrote_is_shortened() -> None:
    """Temporal refuses long search attributes, and no task of the workflow would end."""
    text = json.dumps([{"reason": "x" * 5000, "actor": "y" * 5000}, {"reason": ""}])
    (removal,) = recorded({labels.DELETED_BECAUSE: text})
    assert max(len(removal.reason), len(removal.actor)) <= 100


def test_met08_what_deleted_the_claim_counts_the_disruption() -> None:
    for event, already in ((Poke(claim_deleting=True, removals=(REPAIRED,)), True), (EMPTY, False)):
        remainder = machine.apply(at_live(), event, NOW)
        step = machine.next_step(remainder.model_copy(update={"stage": Stage.RELEASING}), NOW)
        assert isinstance(step, Run)
        assert isinstance(step.input, ReleaseInput)
        assert step.input.already_deleted is already


def test_the_result_of_a_claim_that_is_gone_before_its_launch_has_a_reason() -> None:
    state = machine.apply(NodeState(claim=REF), PrepareLaunchResult(view=ClaimView()), NOW)
    assert state.stage is Stage.TERMINATING
    life = result_of(state, NOW)
    assert (life.reason, life.actor) == ("deleted", SOMEBODY)


def test_the_page_of_a_node_says_when_it_expires_although_somebody_keeps_it() -> None:
    kept_until = NOW + timedelta(days=3)
    page = details(at_live(expires_at=NOW + timedelta(days=1), keep_until=kept_until))
    assert f"- Expires: {kept_until:%Y-%m-%d %H:%M}" in page
