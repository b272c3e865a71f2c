"""The first stages of a node: its launch is prepared, sent and answered, or the claim turns out to have an instance."""

from __future__ import annotations

from datetime import datetime, timedelta

from tenon.apis.reasons import Reason
from tenon.evolve import evolve
from tenon.messages.launch import LaunchResult, PrepareLaunchResult
from tenon.money import per_hour
from tenon.node import launch_retry, leaving_stages, reboot
from tenon.node.leave_text import WORKFLOW, deletion
from tenon.node.startup_stages import REGISTRATION_TIMEOUT
from tenon.node.state import Leave, NodeState, Stage
from tenon.node.steps import LeaveRequest
from tenon.node.timeline import record

LAUNCH_ATTEMPTS = 3


def prepared(state: NodeState, event: PrepareLaunchResult, now: datetime) -> NodeState:
    """Launch with the request that was prepared, resume a claim that has an instance, retry later, or leave."""
    view = event.view
    if not view.exists:
        leave = Leave(**dict(deletion("NodeClaim")), already_deleted=True, asked_at=now)
        return record(evolve(state, stage=Stage.TERMINATING, leave=leave), now, "the NodeClaim is gone")
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
        bought_for=view.bought_for,
        initialization_timeout_seconds=view.initialization_timeout_seconds,
    )
    if view.instance is not None:
        state = _adopted(state, event, now)
    if view.deleting:
        return leaving_stages.leave_deleted(state, view.removals or (deletion("NodeClaim"),), now)
    if view.instance is not None:
        return state
    if event.waits is not None:
        return launch_retry.with_retry(state, event.waits, now)
    if event.request is None:
        return leaving_stages.leave(state, _failed(event), now)
    return record(
        evolve(state, stage=Stage.LAUNCHING, request=event.request, attempt=event.attempt or state.attempt),
        now,
        f"fleet request recorded: {event.request.capacity_type}",
    )


def launched(state: NodeState, event: LaunchResult, now: datetime) -> NodeState:
    """Wait for the Node of the instance; without an instance, prepare or send again, or leave."""
    instance = event.instance
    if instance is None and event.reason == Reason.TEMPLATE_GONE and state.attempt < LAUNCH_ATTEMPTS:
        again = {"stage": Stage.PREPARING, "attempt": state.attempt + 1, "request": None}
        return record(evolve(state, **again), now, "a launch template was gone: prepared again")
    if instance is None and event.waits is not None:
        return launch_retry.with_retry(state, event.waits, now)
    if instance is None:
        return leaving_stages.leave(state, _failed(event), now)
    joins = evolve(
        state,
        stage=Stage.REGISTERING,
        instance=instance,
        request=None,
        deadline=now + REGISTRATION_TIMEOUT,
        launch_failures=0,
        launch_unsettled_until=None,
        blocked=None,
    )
    return record(
        joins,
        now,
        f"launched {instance.id}: {instance.instance_type} {instance.capacity_type} in {instance.zone}"
        f" at {per_hour(instance.price)}",
    )


def _failed(event: PrepareLaunchResult | LaunchResult) -> LeaveRequest:
    return LeaveRequest(reason=event.reason, detail=event.message, actor=WORKFLOW)


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
        check_now=True,
        deadline=now + REGISTRATION_TIMEOUT,
        request=None,
        launch_failures=0,
        launch_unsettled_until=None,
        blocked=None,
        reboots=tuple(at for at in view.reboots if view.reboot is None or at != view.reboot.requested_at),
        pods_were_bound=view.initialized,
    )
    adopted = record(adopted, now, f"resumed at {stage.value}")
    return reboot.requested(adopted, view.reboot, now) if view.reboot is not None else adopted
