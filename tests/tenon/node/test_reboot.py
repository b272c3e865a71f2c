"""The reboot of a node, step by step: what comes next, how long each step may take, and what a failure does."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.apis.reasons import Reason
from tenon.evolve import evolve
from tenon.messages.base import ActivityName, Message
from tenon.messages.launch import PrepareLaunchResult
from tenon.messages.node import Disrupt, Poke, RebootRequest
from tenon.messages.node_steps import BlockedPods, InitializeResult
from tenon.messages.reboot import (
    BootRecord,
    FenceResult,
    RebootCheck,
    RebootDrainInput,
    RebootDrainResult,
    RebootEnded,
    RebootFailure,
    RebootInput,
    RebootOutcome,
    RebootReply,
    RebootResult,
)
from tenon.node import disruption_requests, reboot
from tenon.node.machine import apply, next_step
from tenon.node.state import NodeState, RebootPhase, Stage
from tenon.node.steps import DeadlinePassed, Failed, LeaveRequest, Run, Wait
from tenon.node.timeline import details
from tests.tenon.node.launched import INSTANCE, NOW, VIEW, at_live

S, M = timedelta(seconds=1), timedelta(minutes=1)
ACCEPTED = RebootReply(outcome=RebootOutcome.ACCEPTED)
REFUSED = RebootReply(outcome=RebootOutcome.REFUSED, message="EC2 is busy")
LOST = Failed(activity=ActivityName.REBOOT, message="the worker died")
BEFORE = BootRecord(pre_boot_id="boot-1", boot_id="boot-1")


def wanted(drain: float | None = 60.0, *, at: datetime = NOW, repairs: bool = True) -> RebootRequest:
    return RebootRequest(
        operation_id=f"u1-{at:%H%M%S}",
        reason="AcceleratedHardwareReady/NVIDIAXID46Error",
        repairs=repairs,
        drain_seconds=drain,
        requested_at=at,
        actor="node repair",
        policy="gpus",
    )


def after(state: NodeState, *events: Message, now: datetime = NOW) -> NodeState:
    for event in events:
        state = apply(state, event, now)
    return state


def requested(drain: float | None = 60.0, **fields: Any) -> NodeState:
    return after(at_live(**fields), wanted(drain))


def fenced(drain: float | None = 60.0) -> NodeState:
    return after(requested(drain), FenceResult(boot_id="boot-1"))


def issuing(*, repairs: bool = True) -> NodeState:
    return after(at_live(), wanted(0, repairs=repairs), FenceResult(boot_id="boot-1"), BEFORE)


def recovering() -> NodeState:
    return after(issuing(), ACCEPTED)


def phase(state: NodeState) -> RebootPhase | None:
    return state.reboot.phase if state.reboot is not None else None


def activity(state: NodeState, now: datetime = NOW) -> ActivityName | None:
    step = next_step(state, now)
    return step.activity if isinstance(step, Run) else None


def awaited(state: NodeState, now: datetime = NOW) -> timedelta | None:
    step = next_step(state, now)
    assert isinstance(step, Wait), step
    assert step.until is not None
    return step.until - now


def test_n15_155_the_fence_comes_first() -> None:
    state = requested()
    assert (state.stage, activity(state)) == (Stage.REBOOTING, ActivityName.FENCE)
    assert activity(after(state, FenceResult(boot_id="boot-1"))) is ActivityName.DRAIN_FOR_REBOOT


@pytest.mark.parametrize(
    ("bound", "until"), [(60.0, NOW + 60 * S), (2.0, NOW + 5 * S), (None, None)], ids=["bound", "short", "unbounded"]
)
def test_n15_157_a_bound_is_at_least_five_seconds(bound: float | None, until: datetime | None) -> None:
    step = next_step(fenced(bound), NOW)
    assert isinstance(step, Run)
    assert isinstance(step.input, RebootDrainInput)
    assert step.input.until == until


def test_n15_156_a_bound_of_zero_drains_nothing() -> None:
    assert activity(fenced(0)) is ActivityName.RECORD_BOOT


def test_n15_156_at_the_bound_the_pods_ride_through() -> None:
    state = after(fenced(), RebootDrainResult(remaining=2), now=NOW + 60 * S)
    assert activity(state, NOW + 60 * S) is ActivityName.RECORD_BOOT
    assert "2 pods left, which ride through" in state.timeline[-1].text


def test_n15_157_an_early_end_of_the_drain_waits_five_seconds_for_late_pods() -> None:
    state = after(fenced(), RebootDrainResult(), now=NOW + 2 * S)
    assert awaited(state, NOW + 2 * S) == 3 * S
    state = after(state, DeadlinePassed(), RebootDrainResult(), now=NOW + 5 * S)
    assert activity(state, NOW + 5 * S) is ActivityName.RECORD_BOOT


def test_n15_157_without_a_bound_a_blocked_pod_holds_the_reboot_up() -> None:
    blocked = RebootDrainResult(remaining=1, blocked=[BlockedPods(pods=("shop/db",), why="cannot be evicted")])
    late = NOW + timedelta(days=3)
    state = after(fenced(None), blocked, now=late)
    assert phase(state) is RebootPhase.DRAINING
    assert (awaited(state, late) or S) > S
    assert "shop/db" in details(state)


def test_n15_157_a_blocked_drain_does_not_sleep_past_its_bound() -> None:
    blocked = RebootDrainResult(remaining=1, blocked=[BlockedPods(pods=("shop/db",), why="cannot be evicted")])
    assert awaited(after(fenced(), blocked, now=NOW + 50 * S), NOW + 50 * S) == 10 * S


def test_n15_158_the_boot_id_is_recorded_before_ec2_is_asked() -> None:
    state = fenced(0)
    assert activity(state) is ActivityName.RECORD_BOOT
    state = after(state, BEFORE)
    step = next_step(state, NOW)
    assert isinstance(step, Run)
    assert isinstance(step.input, RebootInput)
    assert step.input.operation_id == f"{wanted(0).operation_id}-boot-1"


def test_n15_159_a_machine_that_has_booted_is_not_asked_again() -> None:
    state = after(fenced(0), BootRecord(pre_boot_id="boot-1", boot_id="boot-2"))
    assert activity(state) is ActivityName.CHECK_REBOOT
    assert phase(state) is RebootPhase.RECOVERING


def test_n15_160_ec2_is_asked_for_five_minutes() -> None:
    state, now, requests = issuing(), NOW, 0
    while activity(state, now) is ActivityName.REBOOT:
        requests += 1
        state = after(state, REFUSED, now=now)
        if phase(state) is RebootPhase.ISSUING:
            now += awaited(state, now) or S
            state = after(state, DeadlinePassed(), now=now)
    assert 5 * M <= now - NOW < 6 * M
    assert requests > 5
    failure = next_step(state, now)
    assert isinstance(failure, Run)
    assert isinstance(failure.input, RebootFailure)
    assert (failure.input.result, failure.input.stays) == (RebootResult.PROVIDER_ERROR, False)
    state = after(state, RebootEnded(), now=now)
    assert (state.stage, state.leave and state.leave.reason) == (Stage.CORDONING, Reason.UNHEALTHY)


def test_n15_171_a_rejection_fails_the_reboot_at_once() -> None:
    state = after(issuing(), RebootReply(outcome=RebootOutcome.REJECTED, message="not authorized"))
    assert activity(state) is ActivityName.END_FAILED_REBOOT
    assert "not authorized" in state.timeline[-1].text


def test_a_node_that_an_operator_reboots_stays_if_ec2_rejects_it() -> None:
    state = after(issuing(repairs=False), RebootReply(outcome=RebootOutcome.REJECTED, message="no"), RebootEnded())
    assert (state.stage, state.reboot, state.initialized) == (Stage.LIVE, None, True)


def test_n15_161_an_issued_reboot_is_looked_at_every_15_seconds() -> None:
    state = recovering()
    assert (activity(state), state.initialized) == (ActivityName.CHECK_REBOOT, False)
    assert awaited(after(state, RebootCheck())) == 15 * S


def test_n15_162_the_new_boot_leads_to_normal_initialization() -> None:
    state = after(recovering(), RebootCheck(rebooted=True), now=NOW + M)
    assert "has booted" in state.timeline[-1].text
    state = after(state, RebootCheck(rebooted=True, ready=True, ended=True), now=NOW + 2 * M)
    assert (state.stage, state.reboot) == (Stage.INITIALIZING, None)
    assert activity(state, NOW + 2 * M) is ActivityName.INITIALIZE
    state = after(state, InitializeResult(initialized=True), now=NOW + 2 * M)
    assert state.stage is Stage.LIVE


def test_after_a_reboot_the_planned_pods_are_not_bound_again() -> None:
    live = at_live(planned_pods=3, pods_were_bound=True)
    state = after(live, wanted(0), FenceResult(issued=True, pre_boot_id="b"), RebootCheck(ended=True))
    assert after(state, InitializeResult(initialized=True)).stage is Stage.LIVE


def test_n15_163_a_machine_that_does_not_come_back_is_replaced_after_20_minutes() -> None:
    state, now = recovering(), NOW
    while phase(state) is RebootPhase.RECOVERING:
        state = after(state, RebootCheck(rebooted=True), now=now)
        if phase(state) is RebootPhase.RECOVERING:
            now += awaited(state, now) or S
            state = after(state, DeadlinePassed(), now=now)
    assert now - NOW == 20 * M
    assert state.reboot is not None
    assert (state.reboot.result, state.reboot.stays) == (RebootResult.RECOVERY_TIMEOUT, False)
    state = after(state, RebootEnded(), now=now)
    assert state.leave is not None
    assert (state.leave.reason, state.stage) == (Reason.UNHEALTHY, Stage.CORDONING)
    assert "20m after EC2 accepted it, the machine has booted, but its Node is not Ready" in state.leave.detail


def test_n15_165_an_unreadable_bound_fails_the_reboot_and_the_node_stays() -> None:
    state = after(requested(), FenceResult(invalid="annotation x is '1y'"))
    assert state.reboot is not None
    assert (state.reboot.result, state.reboot.stays) == (RebootResult.INVALID_REQUEST, True)
    assert after(state, RebootEnded()).stage is Stage.LIVE


def test_n15_166_a_node_that_is_gone_is_waited_for_until_the_deadline_of_the_phase() -> None:
    state = after(requested(), FenceResult(node_exists=False))
    assert awaited(state) == 15 * S
    state = after(state, FenceResult(node_exists=False), now=NOW + 5 * M)
    assert state.reboot is not None
    assert (phase(state), state.reboot.result) == (RebootPhase.FAILING, RebootResult.PROVIDER_ERROR)
    state = after(recovering(), RebootCheck(node_exists=False), now=NOW + 19 * M)
    assert phase(state) is RebootPhase.RECOVERING
    state = after(state, RebootCheck(node_exists=False), now=NOW + 20 * M)
    assert state.reboot is not None
    assert (phase(state), state.reboot.result) == (RebootPhase.FAILING, RebootResult.RECOVERY_TIMEOUT)


def test_n15_643_what_the_nodeclaim_does_not_record_of_a_request_stays_if_it_is_the_same() -> None:
    recorded = evolve(wanted(5), actor="", policy="")
    same = after(requested(), FenceResult(boot_id="boot-1", request=recorded)).reboot
    assert same is not None
    assert (same.request.drain_seconds, same.request.actor, same.request.policy) == (5, "node repair", "gpus")
    other = evolve(recorded, operation_id="another")
    taken_over = after(requested(), FenceResult(boot_id="boot-1", request=other)).reboot
    assert taken_over is not None
    assert taken_over.request == other


def test_n15_167_termination_takes_over_from_a_reboot() -> None:
    for state in (requested(), fenced(), issuing(), recovering()):
        remaining = after(state, Poke(claim_deleting=True))
        assert (remaining.stage, remaining.reboot) == (Stage.CORDONING, None)
        assert after(remaining, ACCEPTED, RebootCheck(ended=True), wanted(at=NOW + S)) == remaining


def test_n15_168_a_rebooting_node_refuses_disruption() -> None:
    answer = disruption_requests.answer(recovering(), Disrupt(command="x", reason="Drifted"), NOW)
    assert (answer.accepted, answer.leaving, answer.why) == (False, False, "its machine reboots")
    assert after(recovering(), Disrupt(command="x", reason="Drifted")).stage is Stage.REBOOTING


def test_n15_154_the_workflow_keeps_the_reboots_of_a_day() -> None:
    state = at_live(reboots=(NOW - timedelta(hours=25), NOW - timedelta(hours=3)))
    assert after(state, wanted()).reboots == (NOW - timedelta(hours=3), NOW)


def test_a_request_that_was_carried_out_does_nothing_when_it_comes_again() -> None:
    done = after(recovering(), RebootCheck(ended=True), InitializeResult(initialized=True))
    assert after(done, wanted(0), Poke(reboot=wanted(0))) == done


@pytest.mark.parametrize(
    ("check", "next_phase"),
    [
        (RebootCheck(rebooted=True), RebootPhase.RECOVERING),
        (RebootCheck(ready=False), RebootPhase.RECOVERING),
        (RebootCheck(ready=True), RebootPhase.ISSUING),
    ],
    ids=["booted", "not-ready", "runs-on"],
)
def test_n15_159_a_lost_answer_is_settled_by_what_the_machine_does(check: RebootCheck, next_phase: RebootPhase) -> None:
    state = after(issuing(), LOST)
    assert activity(state) is ActivityName.CHECK_REBOOT
    state = after(state, RebootCheck(ready=True), now=NOW + 15 * S)
    assert phase(state) is RebootPhase.SETTLING
    assert phase(after(state, check, now=NOW + 2 * M)) is next_phase


@pytest.mark.parametrize(
    ("record", "next_phase"),
    [
        (FenceResult(issued=True, pre_boot_id="boot-1", boot_id="boot-1"), RebootPhase.RECOVERING),
        (FenceResult(pre_boot_id="boot-1", boot_id="boot-2"), RebootPhase.RECOVERING),
        (FenceResult(pre_boot_id="boot-1", boot_id="boot-1"), RebootPhase.SETTLING),
        (FenceResult(boot_id="boot-1"), RebootPhase.DRAINING),
    ],
    ids=["issued", "booted", "maybe-issued", "requested"],
)
def test_n15_643_a_reboot_that_another_controller_began_is_finished(
    record: FenceResult, next_phase: RebootPhase
) -> None:
    view = VIEW.model_copy(
        update={"registered": True, "initialized": True, "node_name": "n1", "instance": INSTANCE}
        | {"reboot": wanted(), "reboots": (NOW,)}
    )
    started = NodeState(claim=at_live().claim)
    state = after(started, PrepareLaunchResult(view=view))
    assert activity(state) is ActivityName.FENCE
    assert phase(after(state, record)) is next_phase


def test_n15_643_a_poke_tells_a_workflow_of_a_reboot_on_its_claim() -> None:
    state = after(at_live(), Poke(reboot=wanted()))
    assert activity(state) is ActivityName.FENCE
    assert after(state, Poke(reboot=wanted())) == state


def test_a_poke_about_the_new_boot_is_looked_at_at_once() -> None:
    state = after(recovering(), RebootCheck())
    assert isinstance(next_step(after(state, Poke(reboot=wanted())), NOW), Wait)
    assert activity(after(state, Poke(reboot=wanted(), rebooted=True))) is ActivityName.CHECK_REBOOT


def test_an_update_says_why_a_node_does_not_reboot() -> None:
    starting = at_live().model_copy(update={"stage": Stage.REGISTERING})
    assert reboot.answer(starting, wanted()).why == "its Node has not joined yet: registering"
    assert "already leaving" in reboot.answer(after(at_live(), LeaveRequest(reason="drain")), wanted()).why
    assert reboot.answer(requested(), wanted()).accepted
    assert "it reboots already" in reboot.answer(requested(), wanted(at=NOW + S)).why


def test_the_page_of_a_node_says_that_it_reboots() -> None:
    page = details(recovering())
    assert "recovering: AcceleratedHardwareReady/NVIDIAXID46Error (node repair)" in page
    assert "Reboots in 24 h" in page


OPERATOR = LeaveRequest(reason="drain", actor="me")
RESULTS: dict[ActivityName, list[Message]] = {
    ActivityName.FENCE: [
        FenceResult(boot_id="boot-1"),
        FenceResult(node_exists=False),
        FenceResult(claim_stays=False),
    ],
    ActivityName.DRAIN_FOR_REBOOT: [
        RebootDrainResult(),
        RebootDrainResult(evicted=1, remaining=1),
        RebootDrainResult(remaining=1, blocked=[BlockedPods(pods=("a/b",), why="no")]),
        RebootDrainResult(node_exists=False),
    ],
    ActivityName.RECORD_BOOT: [BEFORE, BootRecord()],
    ActivityName.REBOOT: [
        ACCEPTED,
        REFUSED,
        LOST,
        RebootReply(outcome=RebootOutcome.REJECTED),
        RebootReply(outcome=RebootOutcome.WITHDRAWN),
    ],
    ActivityName.END_FAILED_REBOOT: [RebootEnded()],
    ActivityName.INITIALIZE: [InitializeResult(initialized=True)],
}
OTHERS: list[Message] = [
    Poke(reboot=wanted()),
    Poke(reboot=wanted(), rebooted=True),
    Poke(disrupted=True),
    wanted(),
    wanted(at=NOW + M),
    Disrupt(command="c", reason="Drifted"),
]


@given(data=st.data(), bound=st.sampled_from([None, 0.0, 60.0]))
def test_n15_158_no_order_of_events_loses_the_fence_or_issues_a_reboot_twice(
    data: st.DataObject, bound: float | None
) -> None:
    """The machine is simulated: EC2 may reboot it although its answer is lost. A worker may die in each activity.

    After two minutes, a machine that reboots has a Node that is not Ready, or has booted.
    """
    state, now = after(at_live(), wanted(bound)), NOW
    fence, boots, asked_at = False, 0, None
    issued: dict[str, int] = {}
    for _ in range(80):
        if state.stage is not Stage.REBOOTING:
            break
        assert state.reboot is not None
        operation, boot_id = state.reboot.request.operation_id, state.reboot.boot_id
        if data.draw(st.integers(0, 4), label="an event comes first") == 0:
            state = after(state, data.draw(st.sampled_from(OTHERS), label="event"), now=now)
            continue
        step = next_step(state, now)
        if isinstance(step, Wait):
            assert step.until is not None
            now = step.until
            state = after(state, DeadlinePassed(), now=now)
            continue
        assert isinstance(step, Run)
        now += data.draw(st.sampled_from([S, 30 * S]), label="the step lasts")
        if step.activity is ActivityName.CHECK_REBOOT:
            down = boots and asked_at is not None and now - asked_at >= M
            up = boots and asked_at is not None and now - asked_at >= 3 * M
            fence = fence and not up
            result: Message = RebootCheck(rebooted=bool(up), ready=bool(up or not down), ended=bool(up))
        else:
            result = data.draw(st.sampled_from(RESULTS[step.activity]), label=step.activity.value)
        match step.activity:
            case ActivityName.FENCE:
                fence = fence or result == FenceResult(boot_id="boot-1")
            case ActivityName.DRAIN_FOR_REBOOT | ActivityName.RECORD_BOOT:
                assert fence
            case ActivityName.REBOOT:
                assert fence
                assert (boot_id, result) != ("", ACCEPTED)
                takes = result == ACCEPTED or (result == LOST and data.draw(st.booleans(), label="EC2 got it"))
                if takes:
                    issued[operation] = issued.get(operation, 0) + 1
                    boots, asked_at = boots + 1, now
            case ActivityName.END_FAILED_REBOOT:
                fence = False
            case _:
                pass
        state = after(state, result, now=now)
    assert all(count == 1 for count in issued.values()), issued
    assert state.stage is not Stage.INITIALIZING or (not fence and boots == 1)
