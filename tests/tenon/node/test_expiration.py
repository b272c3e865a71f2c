"""When an expired node leaves: one after the other when it is late, and within the budgets where its NodePool asks."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.messages.base import ActivityName, ClaimRef
from tenon.messages.node import Disrupt, Keep, RebootRequest
from tenon.messages.node_steps import ExpirationInput, ExpirationResult, InitializeResult
from tenon.messages.reboot import BootRecord, FenceResult, RebootCheck, RebootOutcome, RebootReply
from tenon.node import disruption_requests, expiration, machine
from tenon.node.state import NodeState, Stage
from tenon.node.steps import DeadlinePassed, Failed, KeepRecorded, Run, Wait
from tests.tenon.node.launched import NOW, REF, at_live


@given(st.lists(st.uuids(), min_size=40, max_size=40, unique=True))
def test_nodes_that_are_overdue_together_leave_spread_out(uids: list[object]) -> None:
    """After an outage, the nodes whose time came meanwhile do not all leave in the same second, but within a minute."""
    late = NOW + timedelta(hours=3)
    turns = []
    for uid in uids:
        ref = ClaimRef(cluster="c", name="n", uid=str(uid))
        waits = machine.apply(at_live(claim=ref, expires_at=NOW), DeadlinePassed(), late)
        assert waits.leave is None
        step = machine.next_step(waits, late)
        assert isinstance(step, Wait)
        assert step.until is not None
        turns.append(step.until - late)
        remainder = machine.apply(waits, DeadlinePassed(), step.until)
        assert remainder.leave is not None
        assert remainder.leave.reason == "expired"
    assert max(turns) <= expiration.SPREAD
    assert len({int(turn.total_seconds() // 10) for turn in turns}) >= 3


ASKS = DeadlinePassed()


def test_wsh28_an_expired_node_asks_its_pool_and_leaves_at_once_unless_it_must_wait() -> None:
    asks = machine.apply(at_live(pool="default", expires_at=NOW), ASKS, NOW)
    step = machine.next_step(asks, NOW)
    assert isinstance(step, Run)
    assert (step.activity, step.input) == (
        ActivityName.CHECK_EXPIRATION,
        ExpirationInput(claim=REF, pool="default", expired_at=NOW),
    )
    remainder = machine.apply(asks, ExpirationResult(), NOW)
    assert remainder.leave is not None
    assert (remainder.leave.reason, remainder.stage) == ("expired", Stage.CORDONING)


def test_wsh28_a_node_that_waits_for_the_budgets_asks_again_and_says_it_once() -> None:
    """The NodePool may change, so that no command would come."""
    state, now = at_live(pool="default", expires_at=NOW), NOW
    for _ in range(3):
        state = machine.apply(state, ASKS, now)
        state = machine.apply(state, ExpirationResult(waits=True), now)
        assert (state.leave, state.blocked) == (None, None)
        step = machine.next_step(state, now)
        assert isinstance(step, Wait)
        assert step.until == now + expiration.ASK_AGAIN
        now = step.until
    assert [line.text for line in state.timeline] == [expiration.EXPIRY_WAITS]
    remainder = machine.apply(machine.apply(state, ASKS, now), ExpirationResult(), now)
    assert remainder.leave is not None


def test_a_frozen_node_asks_again_when_the_freeze_ends_or_within_an_hour() -> None:
    """Somebody may lift the freeze earlier, which no signal says."""
    frozen = ExpirationResult(frozen="frozen by DisruptionFreeze release", frozen_until=NOW + timedelta(minutes=90))
    state, now = at_live(pool="default", expires_at=NOW), NOW
    for minutes in (60, 90):
        state = machine.apply(machine.apply(state, ASKS, now), frozen, now)
        step = machine.next_step(state, now)
        assert isinstance(step, Wait)
        assert step.until == NOW + timedelta(minutes=minutes)
        now = step.until
    assert [line.text for line in state.timeline] == [
        "expired: waits because NodePool default is frozen by DisruptionFreeze release"
    ]
    remainder = machine.apply(machine.apply(state, ASKS, now), ExpirationResult(), now)
    assert remainder.leave is not None


def test_wsh28_a_command_removes_a_node_that_waits_for_the_budgets() -> None:
    asks = machine.apply(at_live(pool="default", expires_at=NOW), ASKS, NOW)
    waits = machine.apply(asks, ExpirationResult(waits=True), NOW)
    command = Disrupt(command="expired-1", reason="expired")
    assert disruption_requests.answer(waits, command, NOW).accepted
    remainder = machine.apply(waits, command, NOW)
    assert remainder.leave is not None
    assert (remainder.leave.reason, remainder.leave.only_if_empty) == ("expired", False)


@pytest.mark.parametrize("waits", [True, False])
def test_wsh28_a_node_that_is_kept_while_it_asks_stays(waits: bool) -> None:
    """An operator's wish counts until the node really leaves."""
    until = NOW + timedelta(days=1)
    asks = machine.apply(at_live(pool="default", expires_at=NOW), ASKS, NOW)
    survivors = machine.apply(machine.apply(asks, Keep(until=until), NOW), ExpirationResult(waits=waits), NOW)
    survivors = machine.apply(survivors, KeepRecorded(), NOW)
    step = machine.next_step(survivors, NOW)
    assert isinstance(step, Wait)
    assert (survivors.leave, step.until) == (None, until)


def test_wsh28_a_question_that_fails_is_asked_again_after_a_pause() -> None:
    asks = machine.apply(at_live(pool="default", expires_at=NOW), ASKS, NOW)
    failed = machine.apply(asks, Failed(activity=ActivityName.CHECK_EXPIRATION, message="boom"), NOW)
    step = machine.next_step(failed, NOW)
    assert isinstance(step, Wait)
    assert step.until == NOW + machine.FAILED_RETRY
    again = machine.apply(failed, ASKS, step.until)
    assert machine.apply(again, ExpirationResult(), step.until).leave is not None


@pytest.mark.parametrize(
    "other", [{"pool": ""}, {"stage": Stage.INITIALIZING, "deadline": NOW + timedelta(hours=1)}, {"expires_at": None}]
)
def test_wsh28_only_a_live_node_of_a_pool_asks_before_it_expires(other: dict[str, object]) -> None:
    """Budgets count no other nodes."""
    state = at_live(**{"pool": "default", "expires_at": NOW, **other})
    assert not expiration.asks_before_it_expires(state, NOW)
    assert machine.apply(state, ASKS, NOW).expired is False


def test_a_node_that_is_kept_while_it_waits_for_its_turn_stays() -> None:
    """An operator's wish counts until the node really leaves."""
    late = NOW + timedelta(hours=3)
    waits = machine.apply(at_live(expires_at=NOW), DeadlinePassed(), late)
    survivors = machine.apply(waits, Keep(until=late + timedelta(days=1)), late)
    survivors = machine.apply(survivors, KeepRecorded(), late)
    after = machine.apply(survivors, DeadlinePassed(), late + expiration.SPREAD)
    assert after.leave is None
    step = machine.next_step(after, late + expiration.SPREAD)
    assert isinstance(step, Wait)
    assert step.until == late + timedelta(days=1)


def test_a_node_that_is_due_leaves_at_once() -> None:
    """Only what is overdue since long is spread."""
    remainder = machine.apply(at_live(expires_at=NOW), DeadlinePassed(), NOW + timedelta(seconds=2))
    assert remainder.leave is not None


def test_an_expired_node_leaves_although_it_never_initialized() -> None:
    """DIS-80: expiry does not wait for a node that hangs before initialization."""
    state = NodeState(
        claim=REF, stage=Stage.INITIALIZING, expires_at=NOW + timedelta(minutes=5), deadline=NOW + timedelta(minutes=10)
    )
    step = machine.next_step(state, NOW)
    assert isinstance(step, Wait)
    assert step.until == state.expires_at
    late = machine.apply(state, DeadlinePassed(), NOW + timedelta(minutes=5))
    assert late.leave is not None
    assert late.leave.reason == "expired"


FROZEN = ExpirationResult(frozen="frozen by DisruptionFreeze release", frozen_until=NOW + timedelta(hours=40))
REBOOT = RebootRequest(operation_id="o", reason="DiskBroken", requested_at=NOW, drain_seconds=0)


def rebooted(state: NodeState) -> NodeState:
    """The state after its machine has booted, with a startup taint on its Node."""
    for event in (
        REBOOT,
        FenceResult(claim_stays=True, node_exists=True),
        BootRecord(pre_boot_id="a", boot_id="a"),
        RebootReply(outcome=RebootOutcome.ACCEPTED),
        RebootCheck(node_exists=True, rebooted=True, ready=True, ended=True),
        InitializeResult(reason="StartupTaintsExist", message="startup taint x remains"),
    ):
        state = machine.apply(state, event, NOW)
    return state


def test_an_expired_node_that_waits_and_reboots_is_checked_again_until_it_is_initialized() -> None:
    """Its expiry is over, and what it waits for is later: the next check comes first."""
    asks = machine.apply(at_live(pool="default", expires_at=NOW), ASKS, NOW)
    state = rebooted(machine.apply(asks, FROZEN, NOW))
    assert state.stage is Stage.INITIALIZING
    step = machine.next_step(state, NOW)
    assert isinstance(step, Wait)
    assert (step.until, step.summary) == (state.deadline, "Then Tenon checks the node again")


@pytest.mark.parametrize("waited", [True, False])
@pytest.mark.parametrize("booted", [True, False])
def test_an_expired_node_asks_also_while_it_reboots(waited: bool, booted: bool) -> None:
    """A freeze keeps it as it keeps a live node, and a reboot goes on meanwhile."""
    state = at_live(pool="default", expires_at=NOW)
    if waited:
        state = machine.apply(machine.apply(state, ASKS, NOW), FROZEN, NOW)
    now = NOW + expiration.ASK_FROZEN_AGAIN
    state = rebooted(state) if booted else machine.apply(state, REBOOT, NOW)
    stage = state.stage
    asks = machine.apply(state, ASKS, now)
    step = machine.next_step(asks, now)
    assert isinstance(step, Run)
    assert (step.activity, asks.stage) == (ActivityName.CHECK_EXPIRATION, stage)
    waits = machine.apply(asks, FROZEN, now)
    assert (waits.stage, waits.leave) == (stage, None)
    step = machine.next_step(waits, now)
    assert isinstance(step, Run) or step == Wait(waits.deadline, "Then Tenon checks the node again")
    later = now + expiration.ASK_FROZEN_AGAIN
    remainder = machine.apply(machine.apply(waits, ASKS, later), ExpirationResult(), later)
    assert remainder.leave is not None
    assert remainder.leave.reason == "expired"
