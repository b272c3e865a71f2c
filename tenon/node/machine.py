"""The state machine of a node: `apply` computes the state after an event, and `next_step` says what to do in a state.

    preparing -> launching -> registering -> initializing -> binding -> live <-> rebooting
                     |             |              |            |         |
                     +-------------+------> cordoning -> draining -> detaching -> terminating -> releasing -> ended

Each part of the lifecycle has its own module: `launch_stages`, `startup_stages`, `expiration`, `disruption_requests`,
`reboot`, `leaving_stages`. All functions are pure. The workflow around them only waits and stores the state.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from tenon.apis.reasons import Reason
from tenon.evolve import evolve
from tenon.messages.base import ActivityName, Message
from tenon.messages.launch import LaunchResult, LaunchWait, PrepareLaunchResult
from tenon.messages.node import Disrupt, Keep, Poke, RebootRequest
from tenon.messages.node_steps import (
    BindResult,
    CordonResult,
    DetachResult,
    DrainResult,
    ExpirationResult,
    InitializeResult,
    RegisterResult,
    ReleaseResult,
    TerminateResult,
)
from tenon.messages.reboot import BootRecord, FenceResult, RebootCheck, RebootDrainResult, RebootEnded, RebootReply
from tenon.node import (
    disruption_requests,
    expiration,
    launch_retry,
    launch_stages,
    leaving_stages,
    operator_requests,
    reboot,
    startup_stages,
)
from tenon.node.leave_text import WORKFLOW, deletion
from tenon.node.next_step import next_step
from tenon.node.state import Blocked, NodeState, Stage
from tenon.node.steps import DeadlinePassed, Failed, KeepRecorded, LeaveRequest, Withdrawn
from tenon.node.timeline import record

__all__ = ["apply", "next_step"]

FAILED_RETRY, MAX_FAILED_RETRY = timedelta(seconds=30), timedelta(minutes=2)
"""How soon to retry a step that used up its attempts. The interval doubles from the first value up to the second."""
DONE = (
    RegisterResult,
    InitializeResult,
    BindResult,
    KeepRecorded,
    ExpirationResult,
    CordonResult,
    DrainResult,
    DetachResult,
    TerminateResult,
    ReleaseResult,
    FenceResult,
    RebootDrainResult,
    BootRecord,
    RebootReply,
    RebootCheck,
    RebootEnded,
)
"""Results of steps that are retried without limit. Such a result clears what blocked the step."""

_DRAINS = (DrainResult, RebootDrainResult)


def apply(state: NodeState, event: Message, now: datetime) -> NodeState:
    """Return the state after an event. An event that does not concern the current stage changes nothing."""
    if state.failures and isinstance(event, DONE):
        # A drain goes on with the instant since which pods block it.
        state = evolve(state, failures=0, blocked=state.blocked if isinstance(event, _DRAINS) else None)
    match event:
        case PrepareLaunchResult():
            return launch_stages.prepared(state, event, now)
        case LaunchResult():
            return launch_stages.launched(state, event, now)
        case RegisterResult():
            return startup_stages.registered(state, event, now)
        case InitializeResult():
            return startup_stages.initialized(state, event, now)
        case BindResult():
            return startup_stages.bound(state, event, now)
        case KeepRecorded():
            return evolve(state, keep_recorded=True)
        case Withdrawn():
            stays = evolve(state, disrupted=False)
            return record(stays, now, "removed a disruption taint that no command followed") if event.removed else stays
        case ExpirationResult():
            return expiration.may_expire(state, event, now)
        case CordonResult():
            return leaving_stages.cordoned(state, event, now)
        case DrainResult():
            return leaving_stages.drained(state, event, now)
        case DetachResult():
            return leaving_stages.detached(state, event, now)
        case TerminateResult():
            return leaving_stages.terminated(state, event, now)
        case ReleaseResult():
            return leaving_stages.released(state, event, now)
        case FenceResult():
            return reboot.fenced(state, event, now)
        case RebootDrainResult():
            return reboot.drained(state, event, now)
        case BootRecord():
            return reboot.boot_recorded(state, event, now)
        case RebootReply():
            return reboot.replied(state, event, now)
        case RebootCheck():
            return reboot.checked(state, event, now)
        case RebootEnded():
            return reboot.ended(state, now)
        case RebootRequest():
            return reboot.requested(state, event, now)
        case Poke():
            return _poked(state, event, now)
        case Keep():
            kept_state = evolve(state, keep_until=event.until, keep_recorded=False, expired=False)
            return record(kept_state, now, operator_requests.kept_text(event, now))
        case Disrupt():
            return disruption_requests.disrupted(state, event, now)
        case LeaveRequest():
            return leaving_stages.leave(state, event, now)
        case DeadlinePassed():
            return _deadline(state, now)
        case Failed():
            return _failed(state, event, now)
        case _:
            raise TypeError(f"no rule for {type(event).__name__}")


def _end_without_changes(state: NodeState, now: datetime) -> NodeState:
    """End a workflow that was started for another controller's NodeClaim, without touching the node."""
    text = "the NodeClaim's nodeClassRef names no EC2NodeClass: it is another controller's, and left as it is"
    return record(evolve(state, stage=Stage.ENDED, blocked=None), now, text)


def _poked(state: NodeState, event: Poke, now: datetime) -> NodeState:
    if event.instance_gone:
        return leaving_stages.instance_gone(state, now)
    if state.stage.leaving:
        return leaving_stages.recorded_late(state, event.removals, now)
    if state.stage is Stage.PREPARING and not event.claim_gone:
        # The next step reads the claim and its instance, which leaving needs. Run it at once.
        return evolve(state, deadline=None) if event.claim_deleting else state
    if event.claim_deleting or event.node_deleting:
        removals = event.removals or (deletion("NodeClaim" if event.claim_deleting else "Node"),)
        return leaving_stages.leave_deleted(state, removals, now)
    if state.stage is Stage.REBOOTING:
        return reboot.poked(state, rebooted=event.rebooted)
    if event.reboot is not None:
        return reboot.requested(state, event.reboot, now)
    if event.disrupted:
        return evolve(state, disrupted=True) if state.stage is Stage.LIVE else state
    if state.stage in (Stage.LIVE, Stage.BINDING):
        return state
    # Until the node is registered, the name is only a hint; the newest poke has the best one.
    node_name = event.node_name if state.stage is Stage.REGISTERING else event.node_name or state.node_name
    return evolve(state, check_now=True, node_name=node_name)


def _deadline(state: NodeState, now: datetime) -> NodeState:
    due = expiration.next_expiry(state)
    if not state.stage.leaving and due is not None and now >= due:
        if (waits := expiration.staggered(state, due, now)) is not None:
            return waits
        if expiration.asks_before_it_expires(state, now):
            return evolve(state, expired=True)
        return expiration.leave_expired(state, now)
    if state.stage is Stage.LIVE:
        return evolve(state, spread_until=None)
    if state.deadline is None or now < state.deadline:
        return state
    if state.stage in (Stage.PREPARING, Stage.LAUNCHING):
        return evolve(state, deadline=None)
    if state.stage is Stage.REGISTERING:
        return evolve(state, check_now=True, last_check=True, deadline=None)
    return evolve(state, check_now=True, deadline=None)


def _failed(state: NodeState, event: Failed, now: datetime) -> NodeState:
    if event.not_managed:
        return _end_without_changes(state, now)
    if event.activity is ActivityName.LAUNCH and event.again:
        wait = LaunchWait(reason="LaunchFailed", message=event.message, unsettled=True)
        return launch_retry.with_retry(state, wait, now)
    if event.activity is ActivityName.LAUNCH:
        state = evolve(state, launch_unsettled_until=now + launch_retry.ANSWER_GRACE)
    if event.activity in (ActivityName.PREPARE_LAUNCH, ActivityName.LAUNCH):
        request = LeaveRequest(reason=Reason.LAUNCH_TIMEOUT, detail=event.message, actor=WORKFLOW)
        return leaving_stages.leave(state, request, now)
    if event.activity is ActivityName.REBOOT:
        return reboot.lost_answer(state, event.message, now)
    text = f"{event.activity.value} failed: {event.message}"
    if event.activity is ActivityName.WITHDRAW:  # the next sweep pokes a node that still has the taint
        return record(evolve(state, disrupted=False), now, text)
    blocked = Blocked(message=text, since=state.blocked.since if state.blocked else None)
    update: dict[str, object] = {"blocked": blocked, "failures": state.failures + 1}
    if event.activity is ActivityName.CHECK_EXPIRATION:
        update |= {"expired": False, "expiry_waits_until": now + FAILED_RETRY, "spread_until": None}
    elif state.stage is not Stage.REGISTERING:  # its deadline is the registration timeout, so it retries at once
        pause = min(FAILED_RETRY * 2 ** min(state.failures, 8), MAX_FAILED_RETRY)
        update |= {"deadline": now + pause, "check_now": False}
    return record(evolve(state, **update), now, text)
