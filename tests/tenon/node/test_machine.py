"""A node's state machine: what holds for every order in which things may happen."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.apis.reasons import Reason
from tenon.messages.base import ActivityName, Message
from tenon.messages.launch import (
    ClaimView,
    LaunchRequest,
    LaunchResult,
    LaunchWait,
    PrepareLaunchResult,
)
from tenon.messages.node import Disrupt, Keep, Poke, Removal
from tenon.messages.node_steps import (
    BindResult,
    BlockedPods,
    CordonResult,
    DetachResult,
    DrainResult,
    ExpirationResult,
    InitializeResult,
    NodeInput,
    RegisterResult,
    ReleaseResult,
    TerminateResult,
)
from tenon.node import disruption_requests, launch_stages, machine, startup_stages
from tenon.node.launch_retry import ANSWER_GRACE, MAX_PAUSE
from tenon.node.leaving_stages import BLOCKED_RETRY, GOES_ON, MAX_BLOCKED_RETRY
from tenon.node.state import Blocked, Leave, NodeState, Stage
from tenon.node.steps import DeadlinePassed, End, Failed, KeepRecorded, LeaveRequest, Run, Wait, Withdrawn
from tenon.node.timeline import MAX_ENTRIES, why_blocked
from tests.tenon.node.launched import INSTANCE, NOW, REF, VIEW, at_live

REQUEST = LaunchRequest(client_token="t", capacity_type="spot", templates=[], tags={})
UNKNOWN = LaunchWait(reason="NodeClassReadinessUnknown", message="not resolved yet")
REFUSED = LaunchWait(reason="Unauthorized", message="not allowed")
UNANSWERED = LaunchWait(reason="LaunchFailed", message="no answer", has_answer=False, unsettled=True)
HELD = LaunchWait(reason="Unauthorized", message="held back", breaker_open=True, not_before=NOW + timedelta(seconds=7))

BLOCKED = BlockedPods(pods=("default/web-0",), why="waits")
ANSWERS: dict[ActivityName, st.SearchStrategy[Message]] = {
    ActivityName.PREPARE_LAUNCH: st.sampled_from(
        [
            PrepareLaunchResult(view=VIEW, request=REQUEST),
            PrepareLaunchResult(view=ClaimView()),
            PrepareLaunchResult(view=VIEW, reason="nodeclass_not_ready", message="default is not ready"),
            PrepareLaunchResult(view=VIEW, waits=UNKNOWN),
            PrepareLaunchResult(view=VIEW.model_copy(update={"deleting": True, "instance": INSTANCE})),
            PrepareLaunchResult(view=VIEW.model_copy(update={"instance": INSTANCE, "registered": True})),
        ]
    ),
    ActivityName.LAUNCH: st.sampled_from(
        [
            LaunchResult(instance=INSTANCE),
            LaunchResult(reason="insufficient_capacity"),
            LaunchResult(reason=Reason.TEMPLATE_GONE),
            LaunchResult(waits=REFUSED),
            LaunchResult(waits=UNANSWERED),
            LaunchResult(waits=HELD),
        ]
    ),
    ActivityName.REGISTER: st.sampled_from([RegisterResult(node_name="n1"), RegisterResult(reason="NodeNotFound")]),
    ActivityName.INITIALIZE: st.sampled_from([InitializeResult(initialized=True), InitializeResult(reason="NotReady")]),
    ActivityName.BIND: st.just(BindResult(bound=1, planned=1)),
    ActivityName.KEEP: st.just(KeepRecorded()),
    ActivityName.WITHDRAW: st.sampled_from([Withdrawn(removed=True), Withdrawn()]),
    ActivityName.CHECK_EXPIRATION: st.sampled_from(
        [ExpirationResult(waits=True), ExpirationResult(frozen="frozen", frozen_until=NOW), ExpirationResult()]
    ),
    ActivityName.CORDON: st.sampled_from([CordonResult(node_name="n1"), CordonResult(node_exists=False)]),
    ActivityName.DRAIN: st.sampled_from(
        [
            DrainResult(drained=True),
            DrainResult(remaining=1, blocked=[BLOCKED]),
            DrainResult(drained=True, volumes_attached=2),
        ]
    ),
    ActivityName.DETACH_VOLUMES: st.sampled_from([DetachResult(detached=True), DetachResult(attached=1)]),
    ActivityName.TERMINATE: st.sampled_from([TerminateResult(terminated=True), TerminateResult(state="shutting-down")]),
    ActivityName.RELEASE: st.just(ReleaseResult()),
}
NEWS = st.sampled_from(
    [
        Poke(node_name="n1"),
        Poke(claim_deleting=True),
        Poke(claim_deleting=True, removals=(Removal(reason="spot_interrupted"), Removal(reason="drain"))),
        Poke(node_deleting=True),
        Poke(instance_gone=True),
        Poke(disrupted=True),
        LeaveRequest(reason="drain"),
        LeaveRequest(reason="force_drain", force=True),
        Keep(until=NOW + timedelta(days=1)),
        Disrupt(command="c1", reason="Empty", only_if_empty=True),
    ]
)


@given(st.data())
def test_every_life_ends_and_never_goes_backwards(data: st.DataObject) -> None:
    """Whatever the answers and the requests are, a node ends, in the order of the stages."""
    state, now = NodeState(claim=REF), NOW
    order = list(Stage)
    requests: list[tuple[int, bool]] = []
    for turn in range(400):
        if turn < 60 and data.draw(st.booleans()):
            before = state
            state = machine.apply(state, data.draw(NEWS), now)
            assert not (before.leave and before.leave.force and not (state.leave and state.leave.force))
        if turn == 60:
            state = machine.apply(state, LeaveRequest(reason="drain"), now)
        step = machine.next_step(state, now)
        before = state
        match step:
            case End():
                break
            case Wait(until=until):
                assert until is not None or state.stage is Stage.LIVE, "only a live node may wait for ever"
                now = max(now, until) if until else now + timedelta(hours=1)
                state = machine.apply(state, DeadlinePassed(), now)
            case Run(activity=activity):
                fails = turn < 60 and data.draw(st.integers(0, 9)) == 0
                failed = Failed(activity=activity, message="boom", again=data.draw(st.booleans())) if fails else None
                answer = failed or data.draw(ANSWERS[activity])
                if activity is ActivityName.LAUNCH:
                    assert not (requests and requests[-1][1] and state.attempt != requests[-1][0]), (
                        "what was bought may be lost"
                    )
                    requests.append((state.attempt, answer == LaunchResult(waits=UNANSWERED)))
                state = machine.apply(state, answer, now)
        stays = before.stage is Stage.CORDONING and state.stage is Stage.LIVE
        again = before.stage is Stage.LAUNCHING and state.stage is Stage.PREPARING
        assert stays or again or order.index(state.stage) >= order.index(before.stage)
        assert len(state.timeline) <= MAX_ENTRIES
    assert state.stage is Stage.ENDED


def test_a_launch_template_that_was_deleted_under_a_launch_is_made_again() -> None:
    """AWS-011: prepared again as another attempt, with another token; not for ever."""
    state = NodeState(claim=REF, stage=Stage.LAUNCHING, request=REQUEST)
    for attempt in range(2, launch_stages.LAUNCH_ATTEMPTS + 1):
        state = machine.apply(state, LaunchResult(reason=Reason.TEMPLATE_GONE), NOW)
        step = machine.next_step(state, NOW)
        assert isinstance(step, Run)
        assert (step.activity, step.input.model_dump()["attempt"]) == (ActivityName.PREPARE_LAUNCH, attempt)
        state = machine.apply(state, PrepareLaunchResult(view=VIEW, request=REQUEST), NOW)
    state = machine.apply(state, LaunchResult(reason=Reason.TEMPLATE_GONE, message="gone again"), NOW)
    assert state.leave is not None


def test_force_asked_for_in_the_middle_of_a_drain_has_its_instant() -> None:
    """A pod that nobody may delete holds a forced drain for a while, not for ever: that counts from the force."""
    state = at_live(stage=Stage.DRAINING, force_at=NOW + timedelta(days=2))
    forced = machine.apply(state, LeaveRequest(reason="force_drain", force=True), NOW)
    assert forced.force_at == NOW


def test_a_blocked_drain_wakes_when_the_next_pod_may_be_forced() -> None:
    """TRM-06: a pause between tries never sleeps beyond the instant at which a pod is to be deleted."""
    state = at_live(stage=Stage.DRAINING, drain_rounds=8, drain_stalls=8)
    due = NOW + timedelta(seconds=90)
    waits = machine.apply(state, DrainResult(remaining=1, blocked=[BLOCKED], next_force_at=due), NOW)
    step = machine.next_step(waits, NOW)
    assert isinstance(step, Wait)
    assert step.until == due


def test_ctl06_a_drain_that_makes_progress_goes_on_at_once() -> None:
    """A budget may let one pod go at a time: the pauses are for drains that get nowhere, and begin again after each."""
    state = at_live(stage=Stage.DRAINING, drain_rounds=8)

    def pause(evicted: int) -> timedelta:
        nonlocal state
        state = machine.apply(state, DrainResult(evicted=evicted, remaining=5, blocked=[BLOCKED]), NOW)
        step = machine.next_step(state, NOW)
        assert isinstance(step, Wait)
        assert step.until is not None
        return step.until - NOW

    first, doubled, longest = BLOCKED_RETRY, 2 * BLOCKED_RETRY, MAX_BLOCKED_RETRY
    assert [pause(evicted) for evicted in (1, 0, 0, 2, 0)] == [GOES_ON, first, doubled, GOES_ON, first]
    assert [pause(0) for _ in range(9)][-1] == longest


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (at_live(stage=Stage.DRAINING), "already leaving"),
        (at_live(stage=Stage.INITIALIZING), "not live yet"),
        (at_live(keep_until=NOW + timedelta(hours=1)), "kept until"),
    ],
)
def test_disruption_is_refused_with_a_reason(state: NodeState, why: str) -> None:
    """A node that leaves, starts or is kept takes no command."""
    answer = disruption_requests.answer(state, Disrupt(command="c", reason="Empty"), NOW)
    assert not answer.accepted
    assert why in answer.why


def test_a_poke_changes_nothing_on_a_live_node() -> None:
    """A resting node's run stays as it is, however often something moves on the cluster."""
    assert machine.apply(at_live(), Poke(node_name="n1", node_ready=True), NOW) == at_live()


def test_lif03_a_second_node_with_the_provider_id_takes_the_name_of_the_first_back() -> None:
    """By name one of them would be found and registered, whichever came first; registration has to see both."""
    state = NodeState(claim=REF, stage=Stage.REGISTERING, instance=INSTANCE)
    for poke in (Poke(node_name="n1", reason="joined"), Poke(reason="joined")):
        state = machine.apply(state, poke, NOW)
    step = machine.next_step(state, NOW)
    assert isinstance(step, Run)
    assert isinstance(step.input, NodeInput)
    assert (step.activity, step.input.node_name) == (ActivityName.REGISTER, "")


def test_registration_has_fifteen_minutes() -> None:
    """LIF-05: launched, never registered."""
    state = machine.apply(NodeState(claim=REF, stage=Stage.LAUNCHING), LaunchResult(instance=INSTANCE), NOW)
    early = machine.apply(state, DeadlinePassed(), NOW + timedelta(minutes=14))
    assert early.stage is Stage.REGISTERING
    late = machine.apply(state, DeadlinePassed(), NOW + timedelta(minutes=15))
    step = machine.next_step(late, NOW + timedelta(minutes=15))
    assert isinstance(step, Run)
    assert step.activity is ActivityName.REGISTER, "a Node that joined while nobody could look is not given up"
    joined = machine.apply(late, RegisterResult(node_name="n1"), NOW + timedelta(minutes=15))
    assert joined.stage is Stage.INITIALIZING
    alone = machine.apply(late, RegisterResult(reason="NodeNotFound"), NOW + timedelta(minutes=15))
    assert alone.leave is not None
    assert alone.leave.reason == "registration_timeout"


SAYS = "its console output says that a disk is full (no space left on device)"
LATE = RegisterResult(reason="NodeNotJoined", message=f"no Node has joined for i-1: {SAYS}", console=SAYS)


def test_a_failed_drain_does_not_change_since_when_pods_block_it() -> None:
    state = NodeState(claim=REF, stage=Stage.DRAINING, node_name="n", leave=Leave(reason="drain", asked_at=NOW))
    blocked = DrainResult(remaining=1, blocked=[BLOCKED])
    state = machine.apply(state, blocked, NOW)
    state = machine.apply(state, Failed(activity=ActivityName.DRAIN, message="boom"), NOW + timedelta(hours=1))
    state = machine.apply(state, blocked, NOW + timedelta(hours=2))
    assert state.blocked is not None
    assert (state.blocked.since, state.blocked.message) == (NOW, "")


def test_lif03_a_node_that_is_late_is_blocked_until_it_joins() -> None:
    """It waits on: the node may still join until its registration timeout."""
    state = machine.apply(NodeState(claim=REF, stage=Stage.LAUNCHING), LaunchResult(instance=INSTANCE), NOW)
    now = NOW + timedelta(minutes=3)
    poked = machine.apply(state, Poke(minutes_late=3, reason="no Node after 3 minutes"), now)
    step = machine.next_step(poked, now)
    assert isinstance(step, Run)
    assert step.activity is ActivityName.REGISTER
    late = machine.apply(poked, LATE, now)
    assert (late.stage, why_blocked(late)) == (Stage.REGISTERING, LATE.message)
    assert late.timeline[-1].text == f"not registered yet: {LATE.message}"
    assert machine.next_step(late, now) == machine.next_step(state, now), "it waits for the registration timeout"
    joined = machine.apply(late, RegisterResult(node_name="n1"), now)
    assert (joined.stage, joined.blocked) == (Stage.INITIALIZING, None)


def test_lif05_a_node_that_never_joined_leaves_with_what_its_console_said() -> None:
    state = machine.apply(NodeState(claim=REF, stage=Stage.LAUNCHING), LaunchResult(instance=INSTANCE), NOW)
    state = machine.apply(state, LATE, NOW + timedelta(minutes=3))
    state = machine.apply(state, DeadlinePassed(), NOW + timedelta(minutes=15))
    removal = machine.apply(state, LATE, NOW + timedelta(minutes=15))
    assert removal.leave is not None
    assert removal.leave.reason == "registration_timeout"
    assert removal.leave.detail == f"no Node joined for {INSTANCE.id} within 15 minutes; {SAYS}"
    assert removal.blocked is None, "it waits for no Node any more"


def test_lif05_two_nodes_of_one_instance_leave_with_what_a_person_must_know() -> None:
    """Both joined in time: that no Node joined would send the reader to the user data and the network."""
    several = RegisterResult(
        reason="MultipleNodesFound",
        message="provider ID aws:///a/i-1 is on several Nodes (n1, n2): delete the wrong ones",
    )
    state = machine.apply(NodeState(claim=REF, stage=Stage.LAUNCHING), LaunchResult(instance=INSTANCE), NOW)
    state = machine.apply(state, DeadlinePassed(), NOW + timedelta(minutes=15))
    removal = machine.apply(state, several, NOW + timedelta(minutes=15))
    assert removal.leave is not None
    assert (removal.leave.reason, removal.leave.detail) == (
        "registration_timeout",
        f"no Node registered for {INSTANCE.id} within 15 minutes: {several.message}",
    )


def uninitialized(timeout: float | None) -> NodeState:
    """A node that has just registered."""
    state = NodeState(
        claim=REF, stage=Stage.REGISTERING, instance=INSTANCE, initialization_timeout_seconds=timeout, planned_pods=1
    )
    return machine.apply(state, RegisterResult(node_name="n1"), NOW)


def test_a_node_that_never_initializes_is_reported_then_given_up() -> None:
    """QRK-10, mended: after ten minutes it is blocked with a sentence, after its time it leaves."""
    state, now = uninitialized(3600), NOW
    told_after = left_after = None
    while left_after is None:
        step = machine.next_step(state, now)
        if isinstance(step, Wait):
            assert step.until is not None
            now = step.until
            state = machine.apply(state, DeadlinePassed(), now)
            continue
        assert isinstance(step, Run)
        if step.activity is not ActivityName.INITIALIZE:
            left_after = now - NOW
            break
        answer = InitializeResult(reason="StartupTaintsExist", message="startup taint cilium:NoSchedule is there")
        state = machine.apply(state, answer, now)
        if state.blocked and told_after is None:
            told_after = now - NOW
            assert "cilium:NoSchedule" in why_blocked(state)
    assert told_after is not None
    assert timedelta(minutes=10) <= told_after <= timedelta(minutes=12)
    assert left_after == timedelta(hours=1)
    assert state.leave is not None
    assert state.leave.reason == "initialization_timeout"
    assert "cilium:NoSchedule" in state.leave.detail


def test_a_node_that_was_not_initialized_yet_is_looked_at_again_soon() -> None:
    """What a look does not find comes a moment later, and no poke tells of it: a resource in allocatable, say."""
    state, now, waits = uninitialized(None), NOW, []
    for _ in range(10):
        state = machine.apply(state, InitializeResult(reason="ResourceNotRegistered"), now)
        step = machine.next_step(state, now)
        assert isinstance(step, Wait)
        assert step.until is not None
        waits.append((step.until - now).total_seconds())
        now = step.until
        state = machine.apply(state, DeadlinePassed(), now)
    assert waits[:4] == [5, 10, 20, 40]
    assert waits[-1] == startup_stages.RECHECK.total_seconds()


def test_the_worker_may_wait_forever_for_initialization() -> None:
    """QRK-10 as Karpenter has it: without a timeout the node is only told of."""
    state = uninitialized(None)
    late = machine.apply(state, InitializeResult(reason="NodeNotReady"), NOW + timedelta(days=9))
    assert late.leave is None
    assert late.blocked


@pytest.mark.parametrize("stage", [stage for stage in Stage if not stage.leaving and stage is not Stage.PREPARING])
def test_an_instance_that_is_gone_takes_its_node_along(stage: Stage) -> None:
    """CTL-15, TRM-09: whatever the node was at, it leaves, and its drain waits for nobody."""
    state = at_live(stage=stage, registered=stage is Stage.LIVE)
    removal = machine.apply(state, Poke(instance_gone=True), NOW)
    assert removal.leave is not None
    assert removal.leave.reason == "garbage_collected"
    assert INSTANCE.id in removal.leave.detail
    draining = machine.apply(removal, CordonResult(node_name="n1", pods=2), NOW)
    step = machine.next_step(draining, NOW)
    assert isinstance(step, Run)
    assert step.input.model_dump()["instance_gone"] is True
    drained = machine.apply(draining, DrainResult(drained=True, volumes_attached=3), NOW)
    assert drained.stage is Stage.TERMINATING, "volumes of a machine that is gone are not waited for"


def test_a_drain_that_is_blocked_hears_at_once_that_its_instance_is_gone() -> None:
    """A node that waits five minutes for a PodDisruptionBudget does not wait on when the machine has died."""
    state = at_live(
        stage=Stage.DRAINING, leave=None, deadline=NOW + timedelta(minutes=5), blocked=Blocked(message="pdb")
    )
    assert isinstance(machine.next_step(state, NOW), Wait)
    step = machine.next_step(machine.apply(state, Poke(instance_gone=True), NOW), NOW)
    assert isinstance(step, Run)
    assert step.input.model_dump()["instance_gone"] is True


def test_trm09_a_machine_that_is_lost_while_its_volumes_detach_is_not_waited_for() -> None:
    leaving = machine.apply(at_live(), LeaveRequest(reason="drain"), NOW)
    state = machine.apply(leaving, CordonResult(node_name="n1"), NOW)
    state = machine.apply(state, DrainResult(drained=True, volumes_attached=1), NOW)
    state = machine.apply(state, DetachResult(attached=1), NOW)
    assert isinstance(machine.next_step(state, NOW), Wait)
    lost = machine.apply(state, Poke(instance_gone=True), NOW + timedelta(seconds=5))
    step = machine.next_step(lost, NOW + timedelta(seconds=5))
    assert isinstance(step, Run)
    assert step.activity is ActivityName.TERMINATE
    assert (lost.blocked, lost.volumes_attached) == (None, 0)
    assert [(block.seconds, block.lasts_since) for block in lost.drain_blocks] == [(5, None)]


def test_another_reason_to_leave_wakes_a_drain_that_pauses() -> None:
    """An interrupted spot instance has two minutes, which a pause of five would use up. The same poke wakes it once."""
    state = machine.apply(at_live(), LeaveRequest(reason="drain"), NOW)
    state = machine.apply(state, CordonResult(node_name="n1", pods=1), NOW)
    for _ in range(6):
        state = machine.apply(state, DrainResult(remaining=1, blocked=[BLOCKED]), NOW)
    step = machine.next_step(state, NOW)
    assert isinstance(step, Wait)
    assert step.until == NOW + MAX_BLOCKED_RETRY
    poke = Poke(claim_deleting=True, removals=(Removal(reason="spot_interrupted", actor="interruption"),))
    state = machine.apply(state, poke, NOW)
    step = machine.next_step(state, NOW)
    assert isinstance(step, Run)
    assert step.activity is ActivityName.DRAIN
    state = machine.apply(state, DrainResult(remaining=1, blocked=[BLOCKED]), NOW)
    state = machine.apply(state, poke, NOW)
    step = machine.next_step(state, NOW)
    assert isinstance(step, Wait)
    assert step.until == NOW + BLOCKED_RETRY, "the pauses are short again"


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (CordonResult(cordoned=False, pods=2, protection="an annotation"), "not empty after all (2 pods): stays"),
        (
            CordonResult(cordoned=False, protection='the "karpenter.sh/do-not-disrupt" annotation of its Node'),
            'protected by now (the "karpenter.sh/do-not-disrupt" annotation of its Node): stays',
        ),
    ],
)
def test_dis46_a_node_that_stays_says_what_keeps_it(result: CordonResult, text: str) -> None:
    command = Disrupt(command="c", reason="Empty", only_if_empty=True)
    state = machine.apply(machine.apply(at_live(), command, NOW), result, NOW)
    assert (state.stage, state.leave) == (Stage.LIVE, None)
    assert state.timeline[-1].text == text


def test_a_node_that_was_to_leave_only_if_empty_leaves_when_its_instance_is_gone() -> None:
    """Both come in one moment: pods on a machine that is gone are no reason to stay."""
    state = machine.apply(at_live(), Disrupt(command="c1", reason="Empty", only_if_empty=True), NOW)
    state = machine.apply(state, Poke(instance_gone=True), NOW)
    step = machine.next_step(state, NOW)
    assert isinstance(step, Run)
    assert step.input.model_dump()["only_if_empty"] is False


def test_a_life_that_has_not_looked_yet_looks_before_it_leaves() -> None:
    """Begun again for a claim that is being deleted: its instance must be known, or it would be left running."""
    state = machine.apply(NodeState(claim=REF), Poke(claim_deleting=True, reason="deleted"), NOW)
    step = machine.next_step(state, NOW)
    assert isinstance(step, Run)
    assert step.activity is ActivityName.PREPARE_LAUNCH
    deleting = VIEW.model_copy(update={"deleting": True, "instance": INSTANCE, "registered": True, "node_name": "n1"})
    remainder = machine.apply(state, PrepareLaunchResult(view=deleting), NOW)
    assert (remainder.stage, remainder.instance) == (Stage.CORDONING, INSTANCE)


def test_lif01_a_refused_launch_keeps_the_claim_and_is_retried_with_backoff() -> None:
    """Each time with a new request: what it is made from may have been mended."""
    state, now, pauses = NodeState(claim=REF), NOW, []
    for attempt in range(1, 6):
        state = machine.apply(state, PrepareLaunchResult(view=VIEW, request=REQUEST), now)
        state = machine.apply(state, LaunchResult(waits=REFUSED), now)
        assert (state.stage, state.attempt, state.leave) == (Stage.PREPARING, attempt + 1, None)
        assert "not allowed" in why_blocked(state)
        step = machine.next_step(state, now)
        assert isinstance(step, Wait)
        assert step.until is not None
        pauses.append((step.until - now).total_seconds())
        now = step.until
        state = machine.apply(state, DeadlinePassed(), now)
        again = machine.next_step(state, now)
        assert isinstance(again, Run)
        assert again.activity is ActivityName.PREPARE_LAUNCH
    assert pauses == [5, 10, 20, 20, 20]
    state = machine.apply(state, PrepareLaunchResult(view=VIEW, request=REQUEST), now)
    launched = machine.apply(state, LaunchResult(instance=INSTANCE), now)
    assert (launched.stage, launched.blocked, launched.launch_failures) == (Stage.REGISTERING, None, 0)


def test_a_request_that_ec2_did_not_answer_is_sent_again_as_it_was() -> None:
    """Its token finds what it bought; a new request might buy a second instance."""
    state = machine.apply(NodeState(claim=REF), PrepareLaunchResult(view=VIEW, request=REQUEST), NOW)
    state = machine.apply(state, LaunchResult(waits=UNANSWERED), NOW)
    refused = machine.apply(state, LaunchResult(waits=REFUSED), NOW + MAX_PAUSE)
    for item in (state, refused):
        assert (item.stage, item.request, item.attempt) == (Stage.LAUNCHING, REQUEST, 1)
    settled = machine.apply(refused, LaunchResult(waits=REFUSED), NOW + ANSWER_GRACE)
    assert (settled.stage, settled.request, settled.attempt) == (Stage.PREPARING, None, 2)


@pytest.mark.parametrize(
    "stage", [Stage.CORDONING, Stage.DRAINING, Stage.DETACHING, Stage.TERMINATING, Stage.RELEASING]
)
def test_a_step_that_fails_again_and_again_says_so_and_is_tried_ever_more_seldom(stage: Stage) -> None:
    """What EC2 or a policy denies for ever must be visible to a user who looks for blocked nodes."""
    state, now, pauses = NodeState(claim=REF, stage=stage, instance=INSTANCE), NOW, []
    for _ in range(4):
        step = machine.next_step(state, now)
        assert isinstance(step, Run)
        state = machine.apply(state, Failed(activity=step.activity, message="denied"), now)
        assert (state.stage, why_blocked(state)) == (stage, f"{step.activity.value} failed: denied")
        wait = machine.next_step(state, now)
        assert isinstance(wait, Wait)
        assert wait.until is not None
        pauses.append((wait.until - now).total_seconds())
        now = wait.until
    assert pauses == [30, 60, 120, 120]


def test_what_blocked_a_step_is_forgotten_when_it_is_done() -> None:
    state = NodeState(claim=REF, stage=Stage.CORDONING, node_name="n1", instance=INSTANCE)
    state = machine.apply(state, Failed(activity=ActivityName.CORDON, message="denied"), NOW)
    done = machine.apply(state, CordonResult(node_name="n1"), NOW + timedelta(minutes=1))
    assert (done.stage, done.blocked, done.failures) == (Stage.DRAINING, None, 0)


def test_a_registration_that_is_denied_is_neither_hurried_nor_given_up() -> None:
    """Its Node has joined: the time to join is no reason to end it."""
    state = machine.apply(NodeState(claim=REF, stage=Stage.LAUNCHING), LaunchResult(instance=INSTANCE), NOW)
    state = machine.apply(state, Poke(node_name="n1", reason="joined"), NOW)
    late = NOW + timedelta(minutes=20)
    for now in (NOW, late):
        state = machine.apply(state, Failed(activity=ActivityName.REGISTER, message="denied"), now)
        step = machine.next_step(state, now)
        assert isinstance(step, Run)
        assert (step.activity, why_blocked(state)) == (ActivityName.REGISTER, "register node failed: denied")
    assert machine.apply(state, RegisterResult(node_name="n1"), late).stage is Stage.INITIALIZING


def test_a_stage_of_a_newer_version_is_taken_up_from_the_claim() -> None:
    """After a rollback: an unknown name must not keep the workflow from ever going on."""
    state = NodeState.model_validate_json(NodeState(claim=REF).model_dump_json().replace("preparing", "rehearsing"))
    step = machine.next_step(state, NOW)
    assert isinstance(step, Run)
    assert step.activity is ActivityName.PREPARE_LAUNCH


def test_a_launch_without_an_outcome_is_tried_again_however_late_it_is() -> None:
    """No worker served the launch for minutes: its claim and its pods stay."""
    state = NodeState(claim=REF, stage=Stage.LAUNCHING, request=REQUEST)
    state = machine.apply(state, Failed(activity=ActivityName.LAUNCH, message="no worker", again=True), NOW)
    assert (state.stage, state.request, state.leave) == (Stage.LAUNCHING, REQUEST, None)


def test_a_launch_that_is_held_back_waits_until_then_and_then_launches_alone() -> None:
    """As another attempt: others of its launch group were refused, and launch alone too."""
    state = machine.apply(NodeState(claim=REF), PrepareLaunchResult(view=VIEW, request=REQUEST), NOW)
    state = machine.apply(state, LaunchResult(waits=HELD), NOW)
    assert (state.stage, state.attempt, state.launch_failures) == (Stage.PREPARING, 2, 0)
    step = machine.next_step(state, NOW)
    assert isinstance(step, Wait)
    assert step.until == HELD.not_before


def test_a_claim_that_is_deleted_while_its_launch_waits_leaves_at_once() -> None:
    """Before its launch is tried again the claim is read, and with it an instance that was bought unseen."""
    state = machine.apply(NodeState(claim=REF), PrepareLaunchResult(view=VIEW, waits=UNKNOWN), NOW)
    state = machine.apply(state, Poke(claim_deleting=True), NOW)
    step = machine.next_step(state, NOW)
    assert isinstance(step, Run)
    assert step.activity is ActivityName.PREPARE_LAUNCH
    deleting = VIEW.model_copy(update={"deleting": True})
    remainder = machine.apply(state, PrepareLaunchResult(view=deleting), NOW)
    assert (remainder.stage, remainder.blocked) == (Stage.CORDONING, None)


def test_an_instance_that_never_registered_is_not_drained() -> None:
    """LIF-08: the node steps are skipped; cordoning answers that there is no node to drain."""
    state = NodeState(claim=REF, stage=Stage.CORDONING, instance=INSTANCE)
    assert machine.apply(state, CordonResult(node_exists=False), NOW).stage is Stage.TERMINATING


def test_a_registered_node_is_drained_even_when_its_launch_could_not_be_looked_up() -> None:
    """A life rebuilt while EC2 is away knows nothing of its node, but never ends it under running pods."""
    state = NodeState(claim=REF, stage=Stage.CORDONING)
    assert machine.apply(state, CordonResult(node_name="n1", pods=5), NOW).stage is Stage.DRAINING


def test_a_lost_launch_is_searched_for_a_while() -> None:
    """CreateFleet may have bought although nobody saw its answer."""
    state = machine.apply(
        NodeState(claim=REF, stage=Stage.LAUNCHING, request=REQUEST),
        Failed(activity=ActivityName.LAUNCH, message="x"),
        NOW,
    )
    state = machine.apply(state, CordonResult(node_exists=False), NOW)
    step = machine.next_step(state, NOW)
    assert isinstance(step, Run)
    assert step.input.model_dump()["search_until"] == NOW + ANSWER_GRACE


def test_v1b20_a_node_is_let_go_of_only_when_its_instance_is_gone() -> None:
    """Not at the terminate call, as before v1: what still runs is still known."""
    state = at_live(stage=Stage.TERMINATING)
    state = machine.apply(state, TerminateResult(state="shutting-down"), NOW)
    assert state.stage is Stage.TERMINATING
    assert machine.apply(state, TerminateResult(terminated=True), NOW).stage is Stage.RELEASING


def test_an_instance_ends_when_ec2_was_asked_and_not_when_its_shutdown_was_over() -> None:
    """EC2 charges nothing while it shuts an instance down."""
    state = at_live(stage=Stage.TERMINATING)
    asked_at = NOW - timedelta(minutes=2)
    assert machine.apply(state, TerminateResult(terminated=True, asked_at=asked_at), NOW).terminated_at == asked_at
    assert machine.apply(state, TerminateResult(terminated=True), NOW).terminated_at == NOW


def test_an_operators_wish_outlasts_an_emptiness_that_was_to_be_checked() -> None:
    """A drain asked for while an only-if-empty leave waits is carried out whatever the check finds."""
    state = machine.apply(at_live(), Disrupt(command="c1", reason="Empty", only_if_empty=True), NOW)
    state = machine.apply(state, LeaveRequest(reason="drain"), NOW)
    step = machine.next_step(state, NOW)
    assert isinstance(step, Run)
    assert step.input.model_dump()["only_if_empty"] is False


def test_forced_drain_passes_its_instant_on() -> None:
    """A forced cordon sets the termination instant to now."""
    state = machine.apply(at_live(), LeaveRequest(reason="force_drain", force=True), NOW)
    step = machine.next_step(state, NOW)
    assert isinstance(step, Run)
    assert step.input.model_dump()["termination_timestamp"] == NOW


def test_a_termination_that_ec2_throttles_says_so() -> None:
    state = machine.apply(at_live(stage=Stage.TERMINATING), TerminateResult(state="shutting-down"), NOW)
    assert why_blocked(state) == "the instance is still shutting-down"
    state = machine.apply(at_live(stage=Stage.TERMINATING), TerminateResult(state=""), NOW)
    assert why_blocked(state) == "EC2 has not accepted the termination yet"
