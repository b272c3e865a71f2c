"""The second half of a node's lifecycle: cordon, drain, detach volumes, terminate, release."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from tenon.apis.reasons import Reason
from tenon.evolve import evolve
from tenon.messages.node import Removal
from tenon.messages.node_steps import (
    MAX_WORKLOADS,
    CordonResult,
    DetachResult,
    DrainResult,
    ReleaseResult,
    TerminateResult,
)
from tenon.node.drain_history import with_blocks, with_volumes
from tenon.node.leave_text import SOMEBODY, removal_text
from tenon.node.state import Blocked, Leave, NodeState, Stage
from tenon.node.steps import LeaveRequest
from tenon.node.timeline import record, why_blocked
from tenon.sentences import counted

BLOCKED_RETRY = timedelta(seconds=30)
"""How soon to retry a drain that a PodDisruptionBudget blocks, or an instance that does not terminate."""


MAX_BLOCKED_RETRY = timedelta(minutes=5)
NOT_ACCEPTED = "EC2 has not accepted the termination yet"
"""What a termination waits for while EC2 throttles the request."""
GOES_ON = timedelta(seconds=1)
"""How soon to continue a drain that evicted pods although others are still blocked, as under a PodDisruptionBudget that
lets one pod go at a time."""
SHOWN = 3
"""How many different things that block a drain the state keeps."""
FIRST_DRAIN_SECONDS, DRAIN_SECONDS = 15.0, 60.0
"""How soon the first drain attempt reports what blocks it, if something does, and how long an attempt lasts.

Attempts are long, to use fewer actions.
"""


def report_blocked_after(state: NodeState) -> float | None:
    """Return after how many seconds a drain attempt reports what blocks it; None if it uses all its time."""
    return FIRST_DRAIN_SECONDS if state.drain_rounds == 0 else None


def pause_of_drain(state: NodeState, *, evicted: int) -> tuple[timedelta, int]:
    """Return how long a blocked drain waits, and how many attempts in a row evicted no pod by now."""
    stalls = 0 if evicted else state.drain_stalls + 1
    return GOES_ON if evicted else min(BLOCKED_RETRY * 2 ** min(stalls - 1, 8), MAX_BLOCKED_RETRY), stalls


def leave(state: NodeState, request: LeaveRequest, now: datetime, *, only_if_empty: bool = False) -> NodeState:
    """Start leaving.

    If the node is already leaving, the first reason stays, and only a request to force it, or to drop
    ``only_if_empty``, has another effect than a line of the timeline.
    """
    present = state.leave
    if present is not None and not (request.force and not present.force):
        if present.only_if_empty and not only_if_empty and state.stage is Stage.CORDONING:
            return record(evolve(state, leave=_leave(request, now)), now, f"leaving: {removal_text(request)}")
        return noted(state, (request,), now)
    text = f"leaving: {removal_text(request)}"
    if present is None:
        new_leave = evolve(_leave(request, now), only_if_empty=only_if_empty)
    else:
        new_leave = evolve(present, force=True, only_if_empty=only_if_empty, asked_at=now)
    update: dict[str, object] = {"leave": new_leave}
    if not state.stage.leaving:
        update |= {"stage": Stage.CORDONING, "deadline": None, "request": None, "check_now": False, "reboot": None}
        update["deletion_started_at"] = now
        waited_for_node = state.stage is Stage.REGISTERING and not state.failures
        if waited_for_node or state.stage in (Stage.PREPARING, Stage.LAUNCHING, Stage.REBOOTING):
            update["blocked"] = None
    else:
        update |= {"check_now": True, "force_at": min(state.force_at or now, now)}
        why = f": {request.detail};" if request.detail else ":"
        text = f"force drain requested ({request.actor}){why} pods are deleted without eviction from now on"
    return record(evolve(state, **update), now, text)


def forced_from(leave: Leave) -> datetime | None:
    """Return when the drain becomes forced, by an operator's request or a drain bound; None if neither says it."""
    if leave.force:
        return leave.asked_at
    return None if leave.drain_seconds is None else leave.asked_at + timedelta(seconds=leave.drain_seconds)


def _leave(request: LeaveRequest, now: datetime) -> Leave:
    return Leave(**dict(request), asked_at=now)


def leave_deleted(state: NodeState, removals: Sequence[Removal], now: datetime) -> NodeState:
    """Start leaving because the NodeClaim or the Node is being deleted, for the first of these reasons."""
    request = LeaveRequest(**dict(removals[0]), already_deleted=True)
    return noted(leave(state, request, now), removals, now)


def recorded_late(state: NodeState, removals: Sequence[Removal], now: datetime) -> NodeState:
    """Note the reasons that the NodeClaim of a leaving node says.

    A deletion whose author was not known gets its reason now, because recording it failed at first.
    """
    leave = state.leave
    if leave is None or not removals:
        return state
    if leave.reason == Reason.DELETED and leave.actor == SOMEBODY and removals[0].reason != Reason.DELETED:
        leave = evolve(leave, reason=removals[0].reason, detail=removals[0].detail, actor=removals[0].actor)
        state = record(evolve(state, leave=leave), now, f"deleted because of {removal_text(leave)}")
    return noted(state, removals, now)


def noted(state: NodeState, removals: Sequence[Removal], now: datetime) -> NodeState:
    """Note the reasons that came while the node was leaving. The first one stays.

    A step that pauses runs at once, and the next pauses are short again: a spot interruption leaves two minutes.
    """
    leave = state.leave
    if leave is None:
        return state
    for removal in removals:
        if removal.reason not in {leave.reason, *(later_removal.reason for later_removal in leave.later)}:
            leave = evolve(leave, later=(*leave.later, removal.plain))
            woken = evolve(state, leave=leave, check_now=True, drain_stalls=0)
            state = record(woken, now, f"another reason to leave: {removal_text(removal)}")
    return state


def cordoned(state: NodeState, result: CordonResult, now: datetime) -> NodeState:
    """Continue with the drain, or with termination if there is no node.

    If the node turned out not to be empty, or to be protected, it stays.
    """
    if not result.cordoned:
        stays = evolve(state, stage=Stage.LIVE, leave=None, deadline=None, deletion_started_at=None, check_now=False)
        why = f"not empty after all ({counted(result.pods, 'pod')})"
        if not result.pods:
            why = f"protected by now ({result.protection})"
        return record(stays, now, f"{why}: stays")
    has_node = result.node_exists
    update = {
        "force_at": result.force_at,
        "node_name": result.node_name or state.node_name,
        "stage": Stage.DRAINING if has_node else Stage.TERMINATING,
        "deadline": None,
        "check_now": False,
    }
    text = f"cordoned {update['node_name']}, {counted(result.pods, 'pod')} to drain" if has_node else "no node to drain"
    cordoned_state = record(evolve(state, **update), now, text)
    return cordoned_state if result.drained is None else drained(cordoned_state, result.drained, now)


def drained(state: NodeState, result: DrainResult, now: datetime) -> NodeState:
    """Continue with the volumes or the instance if the node is drained.

    Otherwise record what blocks it and retry later.
    """
    workloads = dict.fromkeys((*state.evicted_workloads, *result.workloads))
    state = evolve(
        state,
        evicted_pods=state.evicted_pods + result.evicted,
        evicted_workloads=tuple(workloads)[:MAX_WORKLOADS],
        drain_rounds=state.drain_rounds + 1,
        check_now=False,
    )
    state = with_blocks(state, () if result.drained else result.blocked, now)
    if result.drained:
        waits_for_volumes = result.volumes_attached and not state.instance_gone
        after = Stage.DETACHING if waits_for_volumes else Stage.TERMINATING
        done = evolve(state, stage=after, blocked=None, deadline=None, volumes_attached=result.volumes_attached)
        return record(done, now, f"drained, {counted(state.evicted_pods, 'pod')} evicted in all")
    pause, stalls = pause_of_drain(state, evicted=result.evicted)
    again = min(now + pause, result.next_force_at or now + pause)
    since = (state.blocked and state.blocked.since) or now
    blocked = Blocked(
        pods=tuple(result.blocked[:SHOWN]), more=len(result.blocked[SHOWN:]), idle=result.idle, since=since
    )
    waits = evolve(
        state,
        blocked=blocked if result.blocked else None,
        deadline=again if result.blocked else None,
        drain_stalls=stalls,
        force_at=result.force_at or state.force_at,
    )
    why = f": {why_blocked(waits)}" if waits.blocked else ""
    return record(waits, now, f"{counted(result.remaining, 'pod')} left{why}")


def detached(state: NodeState, result: DetachResult, now: datetime) -> NodeState:
    """Continue with termination if all volumes are detached; otherwise wait."""
    if result.detached:
        return record(_after_volumes(state, now), now, "volumes detached")
    state = with_volumes(state, result.attached, now)
    text = f"{counted(result.attached, 'volume')} still attached"
    waits = evolve(state, blocked=Blocked(message=text), deadline=now + BLOCKED_RETRY, check_now=False)
    return record(waits, now, text)


def _after_volumes(state: NodeState, now: datetime) -> NodeState:
    """Continue with termination, whether the volumes are detached or no longer waited for."""
    update = {"stage": Stage.TERMINATING, "blocked": None, "deadline": None, "volumes_attached": 0, "check_now": False}
    return evolve(with_volumes(state, 0, now), **update)


def instance_gone(state: NodeState, now: datetime) -> NodeState:
    """Make the node leave after EC2 ended its instance, without waiting for steps that can no longer succeed."""
    if state.instance_gone or state.stage is Stage.ENDED:
        return state
    instance = state.instance.id if state.instance else "the instance"
    gone_state = record(evolve(state, instance_gone=True), now, f"EC2 has no {instance} any more")
    if gone_state.stage is Stage.DETACHING:
        return _after_volumes(gone_state, now)
    if gone_state.stage.leaving:
        sure = evolve(gone_state.leave, only_if_empty=False) if gone_state.leave else None
        return evolve(gone_state, check_now=True, leave=sure)
    request = LeaveRequest(
        reason=Reason.GARBAGE_COLLECTED, detail=f"{instance} is gone from EC2", actor="garbage collection"
    )
    return leave(gone_state, request, now)


def released(state: NodeState, result: ReleaseResult, now: datetime) -> NodeState:
    """End the workflow. The last timeline entry names what still holds the objects."""
    text = "finalizers removed, life ended"
    if result.held_by:
        text += "; " + "; ".join(result.held_by[:3])
    return record(evolve(state, stage=Stage.ENDED), now, text)


def terminated(state: NodeState, result: TerminateResult, now: datetime) -> NodeState:
    """Continue with the release if EC2 reports the instance as gone; otherwise ask again later."""
    if result.terminated:
        update = {"stage": Stage.RELEASING, "blocked": None, "deadline": None, "check_now": False}
        text = f"instance {state.instance.id} terminated" if state.instance else "no instance left"
        ended = record(evolve(state, terminated_at=result.asked_at or now, stopped=result.stopped, **update), now, text)
        return ended if result.released is None else released(ended, result.released, now)
    text = f"the instance is still {result.state}" if result.state else NOT_ACCEPTED
    waits = evolve(state, blocked=Blocked(message=text), deadline=now + BLOCKED_RETRY, check_now=False)
    return record(waits, now, text)
