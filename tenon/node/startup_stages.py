"""The stages between launch and live: a Node registers, becomes initialized, and its planned pods are bound."""

from __future__ import annotations

from datetime import datetime, timedelta

from tenon.apis.reasons import Reason
from tenon.evolve import evolve
from tenon.messages.node_steps import BindResult, InitializeResult, RegisterResult
from tenon.node import leaving_stages
from tenon.node.leave_text import WORKFLOW
from tenon.node.registration import NODE_NOT_FOUND, NOT_JOINED
from tenon.node.state import Blocked, NodeState, Stage
from tenon.node.steps import LeaveRequest
from tenon.node.timeline import pods_text, record

REGISTRATION_TIMEOUT = timedelta(minutes=15)
"""How long a Node may take to register after the launch (LIF-05)."""
RECHECK = timedelta(minutes=10)
"""How often to check an uninitialized or blocked node if no poke arrives."""
FIRST_CHECK = timedelta(minutes=1)
"""How soon after registration to check a Node that is not ready, so that its timeline says why."""
FIRST_RECHECK = timedelta(seconds=5)
"""How soon to check a node again that is not initialized. The interval doubles up to `RECHECK`."""


def registered(state: NodeState, event: RegisterResult, now: datetime) -> NodeState:
    """Wait for the initialization, or keep waiting for the Node until the registration timeout."""
    state = evolve(state, check_now=False)
    if not event.node_name:
        if state.last_check:
            return leaving_stages.leave(state, _registration_timeout(state, event), now)
        waits = evolve(state, blocked=Blocked(message=event.message)) if event.console else state
        return record(waits, now, f"not registered yet: {event.message or event.reason}")
    joined = evolve(
        state,
        stage=Stage.INITIALIZING,
        node_name=event.node_name,
        registered=True,
        registered_at=now,
        blocked=None,
        deadline=now + FIRST_CHECK,
    )
    return record(joined, now, f"registered node {event.node_name}")


def _registration_timeout(state: NodeState, event: RegisterResult) -> LeaveRequest:
    minutes = int(REGISTRATION_TIMEOUT.total_seconds() // 60)
    instance_in_time = f"{state.instance.id if state.instance else 'it'} within {minutes} minutes"
    if event.reason not in (NODE_NOT_FOUND, NOT_JOINED):
        message = f"no Node registered for {instance_in_time}: {event.message or event.reason}"
    elif event.console:
        message = f"no Node joined for {instance_in_time}; {event.console}"
    else:
        message = f"no Node joined for {instance_in_time}"
    return LeaveRequest(reason=Reason.REGISTRATION_TIMEOUT, detail=message, actor=WORKFLOW)


def initialized(state: NodeState, event: InitializeResult, now: datetime) -> NodeState:
    """Bind the planned pods, or keep waiting until the Node is initialized."""
    state = evolve(state, check_now=False)
    if not event.initialized:
        return _still_uninitialized(state, event.message or event.reason, now)
    done = evolve(state, initialized=True, deadline=None, blocked=None)
    done = record(done, now, "initialized")
    if not done.planned_pods or done.pods_were_bound:
        return _enter_live(done, now)
    binding = evolve(done, stage=Stage.BINDING)
    return binding if event.binding is None else bound(binding, event.binding, now)


def _still_uninitialized(state: NodeState, why: str, now: datetime) -> NodeState:
    """Keep waiting. Report the node as blocked after `RECHECK`, and give it up after the initialization timeout."""
    waiting = record(state, now, f"not initialized yet: {why}")
    since = state.registered_at or now
    give_up_at = _initialize_by(state)
    if give_up_at is not None and now >= give_up_at:
        minutes = int((now - since).total_seconds() // 60)
        message = f"not initialized {minutes} minutes after its registration: {why}"
        request = LeaveRequest(reason=Reason.INITIALIZATION_TIMEOUT, detail=message, actor=WORKFLOW)
        return leaving_stages.leave(waiting, request, now)
    next_check = now + min(RECHECK, FIRST_RECHECK * 2 ** min(state.checks, 10))
    blocked = Blocked(message=f"not initialized yet: {why}") if now - since >= RECHECK else None
    return evolve(
        waiting,
        blocked=blocked,
        checks=state.checks + 1,
        deadline=min(next_check, give_up_at) if give_up_at else next_check,
    )


def _initialize_by(state: NodeState) -> datetime | None:
    """Return when to give up a registered node that is still not initialized; None if never."""
    if state.registered_at is None or state.initialization_timeout_seconds is None:
        return None
    return state.registered_at + timedelta(seconds=state.initialization_timeout_seconds)


def bound(state: NodeState, event: BindResult, now: datetime) -> NodeState:
    """Count the pods that run, and enter the live stage."""
    counted = evolve(state, bound_pods=event.bound, running_pods=event.running, pods_were_bound=True)
    return _enter_live(record(counted, now, pods_text(counted)) if event.planned else counted, now)


def _enter_live(state: NodeState, now: datetime) -> NodeState:
    return record(evolve(state, stage=Stage.LIVE, deadline=None, check_now=False), now, "live")
