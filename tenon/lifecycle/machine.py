"""The state machine of a node: `next_step` says what to do in a state, `apply` computes the state after an event.

    preparing -> launching -> registering -> initializing -> binding -> live
                     |             |              |            |         |
                     +-------------+------> cordoning -> draining -> detaching -> terminating -> releasing -> ended

Both functions are pure. The workflow around them only waits and stores the state.
"""

from __future__ import annotations

import zlib
from datetime import datetime, timedelta

from tenon.apis.reasons import Reason
from tenon.evolve import evolve
from tenon.lifecycle import launch_retry, termination
from tenon.lifecycle.messages.base import ActivityName, Message
from tenon.lifecycle.messages.launch import (
    LaunchInput,
    LaunchResult,
    LaunchWait,
    PrepareLaunchInput,
    PrepareLaunchResult,
)
from tenon.lifecycle.messages.node import (
    BindResult,
    CordonInput,
    CordonResult,
    DetachInput,
    DetachResult,
    Disrupt,
    DisruptAnswer,
    DrainInput,
    DrainResult,
    ExpirationInput,
    ExpirationResult,
    InitializeResult,
    Keep,
    KeepInput,
    NodeInput,
    Poke,
    RegisterResult,
    ReleaseInput,
    TerminateInput,
    TerminateResult,
)
from tenon.lifecycle.state import NodeState, PendingDisruption, Stage
from tenon.lifecycle.steps import DeadlinePassed, End, Failed, KeepRecorded, LeaveRequest, Run, Step, Wait, Withdrawn
from tenon.lifecycle.timeline import pods_text, record

REGISTRATION_TIMEOUT = timedelta(minutes=15)
"""How long a Node may take to register after the launch (LIF-05)."""
NO_NODE_JOINS = "registration timeout: terminates the instance unless its Node has joined"
LAUNCH_ATTEMPTS = 3
RECHECK = timedelta(minutes=10)
"""How often to check an uninitialized or blocked node if no poke arrives."""
FIRST_CHECK = timedelta(minutes=1)
"""How soon after registration to check a Node that is not ready, so that its timeline says why."""
FIRST_RECHECK = timedelta(seconds=5)
"""How soon to check a node again that is not initialized. The interval doubles up to `RECHECK`."""
FAILED_RETRY, MAX_FAILED_RETRY = timedelta(seconds=30), timedelta(minutes=2)
"""How soon to retry a step that used up its attempts. The interval doubles from the first value up to the second."""
EXPIRY_WAITS = "expired: waits until the budgets of its NodePool allow it to leave"
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
    ReleaseInput,
)
"""Results of steps that are retried without limit. Such a result clears what blocked the step."""
LATE = timedelta(minutes=1)
"""A deadline handled this late was delayed by an outage, which probably delayed many other nodes too."""
SPREAD = timedelta(minutes=1)
"""Nodes that are overdue together leave spread over this period."""


def next_step(state: NodeState, now: datetime) -> Step:
    """Return what to do now. Deterministic in its arguments."""
    if not state.keep_recorded and state.keep_until is not None and not state.stage.leaving:
        return Run(
            ActivityName.KEEP,
            KeepInput(claim=state.claim, until=state.keep_until),
            f"keep until {state.keep_until:%Y-%m-%d %H:%M}",
        )
    match state.stage:
        case Stage.PREPARING | Stage.LAUNCHING if state.deadline is not None and now < state.deadline:
            return Wait(state.deadline, "tries to launch again")
        case Stage.PREPARING:
            return Run(
                ActivityName.PREPARE_LAUNCH,
                PrepareLaunchInput(claim=state.claim, attempt=state.attempt),
                f"choose instance types for {state.claim.name}",
            )
        case Stage.LAUNCHING if state.request is not None:
            types = {o.instance_type for template in state.request.templates for o in template.overrides}
            group = state.request.group
            together = f", one of {group.size} that launch together" if group else ""
            return Run(
                ActivityName.LAUNCH,
                LaunchInput(claim=state.claim, request=state.request),
                f"{state.request.capacity_type}, {len(types)} instance types{together}",
            )
        case Stage.REGISTERING if state.look:
            return Run(ActivityName.REGISTER, _node_input(state), _instance_text(state))
        case Stage.INITIALIZING if state.look:
            return Run(ActivityName.INITIALIZE, _node_input(state), state.node_name)
        case Stage.BINDING:
            return Run(ActivityName.BIND, _node_input(state), f"{state.planned_pods} pods -> {state.node_name}")
        case Stage.LIVE:
            if state.disrupted:
                return Run(ActivityName.WITHDRAW, _node_input(state), state.node_name)
            if state.expired:
                given = ExpirationInput(claim=state.claim, pool=state.pool)
                return Run(ActivityName.CHECK_EXPIRATION, given, f"may a node of {state.pool} leave at once?")
            if state.spread_until is not None:
                return Wait(state.spread_until, "leaves later, because many nodes are overdue")
            leaves_at = state.pending.due if state.pending else None
            expires_at = _next_expiry(state)
            if leaves_at is not None and (expires_at is None or leaves_at <= expires_at):
                return Wait(leaves_at, "leaves, if nothing changed")
            return Wait(expires_at, "expires" if expires_at == expiry(state) else "waits for the budgets, asks again")
        case Stage.CORDONING | Stage.DRAINING | Stage.DETACHING | Stage.TERMINATING | Stage.RELEASING:
            return _leaving_step(state, now)
        case Stage.ENDED:
            return End()
        case _:
            what = NO_NODE_JOINS if state.stage is Stage.REGISTERING else "look again"
            expires_at = expiry(state)
            if state.deadline is not None and expires_at is not None and expires_at < state.deadline:
                return Wait(expires_at, "expires")
            return Wait(state.deadline, what)


def _node_input(state: NodeState) -> NodeInput:
    return NodeInput(
        claim=state.claim,
        provider_id=state.instance.provider_id if state.instance else "",
        node_name=state.node_name,
    )


def _instance_text(state: NodeState) -> str:
    instance = state.instance
    return f"{instance.id} {instance.instance_type} {instance.zone}" if instance else state.claim.name


def expiry(state: NodeState) -> datetime | None:
    """Return when the node expires; an operator's keep request postpones it."""
    if state.expires_at is None or state.keep_until is None:
        return state.expires_at
    return max(state.expires_at, state.keep_until)


def _next_expiry(state: NodeState) -> datetime | None:
    """Return when to remove the node because it expired, or to ask again whether it may leave."""
    due = expiry(state)
    if due is None or state.expiry_waits_until is None:
        return due
    return max(due, state.expiry_waits_until)


def asks_before_it_expires(state: NodeState, now: datetime) -> bool:
    """Return whether the node, if its time has come, must ask whether its NodePool makes expired nodes wait.

    Only live nodes ask: budgets count no others.
    """
    due = _next_expiry(state)
    return state.stage is Stage.LIVE and bool(state.pool) and due is not None and now >= due


def _leaving_step(state: NodeState, now: datetime) -> Step:
    if state.look is False and state.deadline is not None and now < state.deadline:
        return Wait(state.deadline, "tries again")
    base = _node_input(state).model_dump()
    force = state.leave.force if state.leave else False
    match state.stage:
        case Stage.CORDONING:
            reason = state.leave.reason if state.leave else ""
            return Run(
                ActivityName.CORDON,
                CordonInput(
                    **base,
                    reason=reason,
                    only_if_empty=bool(state.leave and state.leave.only_if_empty),
                    termination_timestamp=state.leave.asked_at if state.leave and force else None,
                ),
                f"{state.node_name or state.claim.name}: {reason}",
            )
        case Stage.DRAINING:
            return Run(
                ActivityName.DRAIN,
                DrainInput(
                    **base,
                    force_at=state.force_at,
                    force=force,
                    pool=state.pool,
                    budget_seconds=termination.drain_seconds(state),
                    instance_gone=state.instance_gone,
                    reason=state.leave.reason if state.leave else "",
                ),
                f"{state.node_name}{' by force' if force else ''}",
                overtaken_by_force=not force,
            )
        case Stage.DETACHING:
            return Run(
                ActivityName.DETACH_VOLUMES,
                DetachInput(**base, force_at=state.leave.asked_at if state.leave and force else state.force_at),
                f"{state.volumes_attached} volumes of {state.node_name}",
                overtaken_by_force=not force,
            )
        case Stage.TERMINATING:
            instance = state.instance
            return Run(
                ActivityName.TERMINATE,
                TerminateInput(
                    claim=state.claim,
                    instance_id=instance.id if instance else "",
                    zone=instance.zone if instance else "",
                    search_until=state.launch_unsettled_until,
                    shown=instance is not None and instance.launched_at is not None,
                ),
                _instance_text(state),
            )
        case _:
            instance = state.instance
            return Run(
                ActivityName.RELEASE,
                ReleaseInput(
                    **base,
                    pool=state.pool,
                    capacity_type=instance.capacity_type if instance else "",
                    zone=instance.zone if instance else "",
                    reason=state.leave.reason if state.leave else "",
                    created_at=state.created_at,
                    deletion_started_at=state.deletion_started_at,
                ),
                state.claim.name,
            )


def apply(state: NodeState, event: Message, now: datetime) -> NodeState:
    """Return the state after an event. An event that does not concern the current stage changes nothing."""
    if state.failures and isinstance(event, DONE):
        state = evolve(state, failures=0, blocked="")
    match event:
        case PrepareLaunchResult():
            return _prepared(state, event, now)
        case LaunchResult():
            return _launched(state, event, now)
        case RegisterResult():
            return _registered(state, event, now)
        case InitializeResult():
            return _initialized(state, event, now)
        case BindResult():
            bound = evolve(state, bound_pods=event.bound, running_pods=event.running)
            return _enter_live(record(bound, now, pods_text(bound)) if event.planned else bound, now)
        case KeepRecorded():
            return evolve(state, keep_recorded=True)
        case Withdrawn():
            stays = evolve(state, disrupted=False)
            return record(stays, now, "removed a disruption taint that nothing followed") if event.removed else stays
        case ExpirationResult():
            return _may_expire(state, event, now)
        case CordonResult():
            return termination.cordoned(state, event, now)
        case DrainResult():
            return termination.drained(state, event, now)
        case DetachResult():
            return termination.detached(state, event, now)
        case TerminateResult():
            return termination.terminated(state, event, now)
        case ReleaseInput():
            return termination.released(state, event, now)
        case Poke():
            return _poked(state, event, now)
        case Keep():
            kept = evolve(state, keep_until=event.until, keep_recorded=False, pending=None, expired=False)
            return record(kept, now, f"kept until {event.until:%Y-%m-%d %H:%M} by an operator")
        case Disrupt():
            return _disrupted(state, event, now)
        case LeaveRequest():
            return termination.leave(state, event, now)
        case DeadlinePassed():
            return _deadline(state, event, now)
        case Failed():
            return _failed(state, event, now)
        case _:
            raise TypeError(f"no rule for {type(event).__name__}")


def _prepared(state: NodeState, event: PrepareLaunchResult, now: datetime) -> NodeState:
    view = event.view
    if not view.exists:
        return record(evolve(state, stage=Stage.TERMINATING), now, "the NodeClaim is gone")
    expires = (
        view.created_at + timedelta(seconds=view.expire_after_seconds)
        if view.created_at and view.expire_after_seconds is not None
        else None
    )
    state = evolve(
        state,
        created_at=view.created_at,
        pool=view.pool,
        node_class=view.node_class,
        expires_at=expires,
        keep_until=view.keep_until or state.keep_until,
        planned_pods=view.planned_pods,
        explanation=tuple(view.explanation),
        initialization_timeout_seconds=view.initialization_timeout_seconds,
    )
    if view.instance is not None:
        state = _adopted(state, event, now)
    if view.deleting:
        return termination.leave(state, LeaveRequest(reason=Reason.DELETED, message="the NodeClaim was deleted"), now)
    if view.instance is not None:
        return state
    if event.waits is not None:
        return launch_retry.with_retry(state, event.waits, now)
    if event.request is None:
        return termination.leave(state, LeaveRequest(reason=event.reason, message=event.message), now)
    return record(
        evolve(state, stage=Stage.LAUNCHING, request=event.request),
        now,
        f"fleet request recorded: {event.request.capacity_type}",
    )


def _adopted(state: NodeState, event: PrepareLaunchResult, now: datetime) -> NodeState:
    """Resume a claim that was launched before this workflow started, because the earlier workflow was terminated."""
    view = event.view
    stage = Stage.REGISTERING
    if view.initialized:
        stage = Stage.LIVE
    elif view.registered:
        stage = Stage.INITIALIZING
    adopted = evolve(
        state,
        stage=stage,
        instance=view.instance,
        node_name=view.node_name,
        registered=view.registered,
        registered_at=now if view.registered else None,
        initialized=view.initialized,
        look=True,
        deadline=now + REGISTRATION_TIMEOUT,
        request=None,
        launch_failures=0,
        launch_unsettled_until=None,
        blocked="",
    )
    return record(adopted, now, f"resumed at {stage.value}")


def _launched(state: NodeState, event: LaunchResult, now: datetime) -> NodeState:
    instance = event.instance
    if instance is None and event.reason == Reason.TEMPLATE_GONE and state.attempt < LAUNCH_ATTEMPTS:
        again = {"stage": Stage.PREPARING, "attempt": state.attempt + 1, "request": None}
        return record(evolve(state, **again), now, "a launch template was gone: prepared again")
    if instance is None and event.waits is not None:
        return launch_retry.with_retry(state, event.waits, now)
    if instance is None:
        return termination.leave(state, LeaveRequest(reason=event.reason, message=event.message), now)
    launched = evolve(
        state,
        stage=Stage.REGISTERING,
        instance=instance,
        request=None,
        deadline=now + REGISTRATION_TIMEOUT,
        launch_failures=0,
        launch_unsettled_until=None,
        blocked="",
    )
    return record(
        launched,
        now,
        f"launched {instance.id}: {instance.instance_type} {instance.capacity_type} in {instance.zone}"
        f" at {instance.price:.4f} $/h",
    )


def _registered(state: NodeState, event: RegisterResult, now: datetime) -> NodeState:
    state = evolve(state, look=False)
    if not event.node_name:
        if state.last_look:
            return termination.leave(state, _registration_timeout(state), now)
        return record(state, now, f"not registered yet: {event.message or event.reason}")
    registered = evolve(
        state,
        stage=Stage.INITIALIZING,
        node_name=event.node_name,
        registered=True,
        registered_at=now,
        blocked="",
        deadline=now + FIRST_CHECK,
    )
    return record(registered, now, f"registered node {event.node_name}")


def _initialized(state: NodeState, event: InitializeResult, now: datetime) -> NodeState:
    state = evolve(state, look=False)
    if not event.initialized:
        return _still_uninitialized(state, event.message or event.reason, now)
    done = evolve(state, initialized=True, deadline=None, blocked="")
    done = record(done, now, "initialized")
    if done.planned_pods:
        return evolve(done, stage=Stage.BINDING)
    return _enter_live(done, now)


def _still_uninitialized(state: NodeState, why: str, now: datetime) -> NodeState:
    """Keep waiting. Report the node as blocked after `RECHECK`, and give it up after the initialization timeout."""
    waiting = record(state, now, f"not initialized yet: {why}")
    since = state.registered_at or now
    give_up_at = _initialize_by(state)
    if give_up_at is not None and now >= give_up_at:
        minutes = int((now - since).total_seconds() // 60)
        message = f"not initialized {minutes} minutes after its registration: {why}"
        return termination.leave(waiting, LeaveRequest(reason=Reason.INITIALIZATION_TIMEOUT, message=message), now)
    look_again = now + min(RECHECK, FIRST_RECHECK * 2 ** min(state.looks, 10))
    blocked = f"not initialized yet: {why}" if now - since >= RECHECK else ""
    return evolve(
        waiting,
        blocked=blocked,
        looks=state.looks + 1,
        deadline=min(look_again, give_up_at) if give_up_at else look_again,
    )


def _initialize_by(state: NodeState) -> datetime | None:
    """Return when to give up a registered node that is still not initialized; None if never."""
    if state.registered_at is None or state.initialization_timeout_seconds is None:
        return None
    return state.registered_at + timedelta(seconds=state.initialization_timeout_seconds)


def _enter_live(state: NodeState, now: datetime) -> NodeState:
    return record(evolve(state, stage=Stage.LIVE, deadline=None, look=False), now, "live")


def _end_without_changes(state: NodeState, now: datetime) -> NodeState:
    """End a workflow that was started for another controller's NodeClaim, without touching the node."""
    text = "the NodeClaim's nodeClassRef names no EC2NodeClass: it is another controller's, and left as it is"
    return record(evolve(state, stage=Stage.ENDED, blocked=""), now, text)


def _poked(state: NodeState, event: Poke, now: datetime) -> NodeState:
    if event.not_managed:
        return _end_without_changes(state, now)
    if event.instance_gone:
        return termination.instance_gone(state, now)
    if state.stage.leaving:
        return state
    if state.stage is Stage.PREPARING and event.reason != "gone":
        # The next step reads the claim and its instance, which leaving needs. Run it at once.
        return evolve(state, deadline=None) if event.claim_deleting else state
    if event.claim_deleting or event.node_deleting:
        what = "NodeClaim" if event.claim_deleting else "Node"
        return termination.leave(state, LeaveRequest(reason=Reason.DELETED, message=f"the {what} was deleted"), now)
    if event.disrupted:
        return evolve(state, disrupted=True) if state.stage is Stage.LIVE else state
    if state.stage in (Stage.LIVE, Stage.BINDING):
        return state
    # Until the node is registered, the name is only a hint; the newest poke has the best one.
    node_name = event.node_name if state.stage is Stage.REGISTERING else event.node_name or state.node_name
    return evolve(state, look=True, node_name=node_name)


def answer(state: NodeState, event: Disrupt, now: datetime) -> DisruptAnswer:
    """Decide whether the node accepts a disruption command. Call it before applying the command."""
    if state.stage.leaving or state.leave is not None:
        why = f"already leaving: {state.leave.reason if state.leave else ''}"
        return DisruptAnswer(accepted=False, why=why, leaving=True)
    if state.stage is not Stage.LIVE:
        return DisruptAnswer(accepted=False, why=f"not live yet: {state.stage.value}")
    if state.keep_until is not None and now < state.keep_until:
        return DisruptAnswer(accepted=False, why=f"kept until {state.keep_until.isoformat()}")
    if state.pending is not None and state.pending.command != event.command:
        return DisruptAnswer(accepted=False, why=f"command {state.pending.command} is already waiting here")
    return DisruptAnswer(accepted=True)


def _disrupted(state: NodeState, event: Disrupt, now: datetime) -> NodeState:
    if not answer(state, event, now).accepted:
        return state
    if event.not_before is not None and event.not_before > now:
        pending = PendingDisruption(
            command=event.command,
            reason=event.reason,
            due=event.not_before,
            since=event.since,
            only_if_empty=event.only_if_empty,
        )
        text = f"{event.reason}; leaves at {event.not_before:%H:%M:%S} if still so"
        return record(evolve(state, pending=pending), now, text)
    request = LeaveRequest(reason=event.reason, command=event.command)
    return termination.leave(state, request, now, only_if_empty=event.only_if_empty)


def _may_expire(state: NodeState, event: ExpirationResult, now: datetime) -> NodeState:
    """Leave, or wait for a disruption command and ask again later, because the NodePool may change meanwhile."""
    if not state.expired or state.stage is not Stage.LIVE:
        return state
    state = evolve(state, expired=False)
    if event.waits:
        waits = evolve(state, expiry_waits_until=now + RECHECK, spread_until=None)
        return record(waits, now, EXPIRY_WAITS) if state.expiry_waits_until is None else waits
    return termination.leave(state, LeaveRequest(reason=Reason.EXPIRED, message="its time to live is over"), now)


def _deadline(state: NodeState, event: DeadlinePassed, now: datetime) -> NodeState:
    due = _next_expiry(state)
    if not state.stage.leaving and due is not None and now >= due:
        if (waits := _staggered(state, due, now)) is not None:
            return waits
        if event.asks_first and asks_before_it_expires(state, now):
            return evolve(state, expired=True)
        return termination.leave(state, LeaveRequest(reason=Reason.EXPIRED, message="its time to live is over"), now)
    if state.stage is Stage.LIVE:
        pending = state.pending
        if pending is not None and now >= pending.due:
            if (waits := _staggered(state, pending.due, now)) is not None:
                return waits
            request = LeaveRequest(reason=pending.reason, command=pending.command)
            return termination.leave(state, request, now, only_if_empty=pending.only_if_empty)
        return evolve(state, spread_until=None)
    if state.deadline is None or now < state.deadline:
        return state
    if state.stage in (Stage.PREPARING, Stage.LAUNCHING):
        return evolve(state, deadline=None)
    if state.stage is Stage.REGISTERING:
        return evolve(state, look=True, last_look=True, deadline=None)
    return evolve(state, look=True, deadline=None)


def _staggered(state: NodeState, due: datetime, now: datetime) -> NodeState | None:
    """Return a state that delays an overdue live node to its share of `SPREAD`; None if the node leaves now."""
    if state.stage is not Stage.LIVE or now - due < LATE:
        return None
    if state.spread_until is not None:
        return None if now >= state.spread_until else state
    share = zlib.crc32(state.claim.uid.encode()) / 2**32
    return evolve(state, spread_until=now + share * SPREAD)


def _registration_timeout(state: NodeState) -> LeaveRequest:
    minutes = int(REGISTRATION_TIMEOUT.total_seconds() // 60)
    message = f"no Node joined for {state.instance.id if state.instance else 'it'} within {minutes} minutes"
    return LeaveRequest(reason=Reason.REGISTRATION_TIMEOUT, message=message)


def _failed(state: NodeState, event: Failed, now: datetime) -> NodeState:
    if event.not_managed:
        return _end_without_changes(state, now)
    if event.activity is ActivityName.LAUNCH and event.again:
        wait = LaunchWait(reason="LaunchFailed", message=event.message, unsettled=True)
        return launch_retry.with_retry(state, wait, now)
    if event.activity is ActivityName.LAUNCH:
        state = evolve(state, launch_unsettled_until=now + launch_retry.ANSWER_GRACE)
    if event.activity in (ActivityName.PREPARE_LAUNCH, ActivityName.LAUNCH):
        return termination.leave(state, LeaveRequest(reason=Reason.LAUNCH_TIMEOUT, message=event.message), now)
    text = f"{event.activity.value} failed: {event.message}"
    update: dict[str, object] = {"blocked": text, "failures": state.failures + 1}
    if event.activity is ActivityName.CHECK_EXPIRATION:
        update |= {"expired": False, "expiry_waits_until": now + FAILED_RETRY, "spread_until": None}
    elif state.stage is not Stage.REGISTERING:  # its deadline is the registration timeout, so it retries at once
        pause = min(FAILED_RETRY * 2 ** min(state.failures, 8), MAX_FAILED_RETRY)
        update |= {"deadline": now + pause, "look": False}
    return record(evolve(state, **update), now, text)
