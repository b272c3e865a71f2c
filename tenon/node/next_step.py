"""What to do in a state: run an activity or wait. Replay depends on the order of these steps."""

from __future__ import annotations

from datetime import datetime, timedelta

from tenon.apis.reasons import camel_case
from tenon.kube.timestamps import time_text
from tenon.messages.base import ActivityName
from tenon.messages.launch import LaunchInput, PrepareLaunchInput
from tenon.messages.node import Removal
from tenon.messages.node_steps import (
    CordonInput,
    DetachInput,
    DrainInput,
    ExpirationInput,
    InitializeInput,
    KeepInput,
    NodeInput,
    ReleaseInput,
    TerminateInput,
)
from tenon.node import launch_retry, leave_text, leaving_stages
from tenon.node.expiration import next_expiry
from tenon.node.reboot_steps import reboot_step
from tenon.node.startup_stages import FIRST_CHECK, REGISTRATION_TIMEOUT
from tenon.node.state import NodeState, Stage, expiry
from tenon.node.steps import End, Run, Step, Wait
from tenon.sentences import counted

STARTS_WITHIN = timedelta(minutes=2)
"""How soon after its launch a node is usually live. One timer for this time serves all waits until then."""
# The UI shows these texts while a timer runs, and after something else came first: so they begin with "If" or "Then".
STARTS_LATE = "If the node is not live by then: Tenon keeps waiting"
NO_NODE_JOINS = "If its Node has not joined by then: Tenon terminates the instance"
EXPIRES = "If the node still runs by then: it expires and leaves"
ASKS_AGAIN = "Then Tenon asks again whether the expired node may leave"
LEAVES_OVERDUE = "If the node still runs by then: it leaves, as many others that are overdue"
_AGAIN = {
    Stage.CORDONING: "Then Tenon tries again to keep new pods away",
    Stage.DRAINING: "Then Tenon tries again to evict the remaining pods",
    Stage.DETACHING: "Then Tenon looks again whether the volumes are detached",
    Stage.TERMINATING: "Then Tenon looks again whether the instance has ended",
    Stage.RELEASING: "Then Tenon tries again to remove the finalizers",
}
"""What comes after a pause in each stage of a node that leaves."""


def next_step(state: NodeState, now: datetime) -> Step:
    """Return what to do now. Deterministic in its arguments."""
    if not state.keep_recorded and state.keep_until is not None and not state.stage.leaving:
        return Run(
            ActivityName.KEEP,
            KeepInput(claim=state.claim, until=state.keep_until),
            f"keep until {time_text(state.keep_until)}",
        )
    match state.stage:
        case Stage.PREPARING | Stage.LAUNCHING if state.deadline is not None and now < state.deadline:
            return Wait(state.deadline, "Then Tenon tries to launch again")
        case Stage.PREPARING:
            return Run(
                ActivityName.PREPARE_LAUNCH,
                PrepareLaunchInput(claim=state.claim, attempt=state.attempt, began_at=state.began_at),
                f"choose instance types for {state.claim.name}",
            )
        case Stage.LAUNCHING if state.request is not None:
            types = {o.instance_type for template in state.request.templates for o in template.overrides}
            group = state.request.group
            together = f", one of {group.size} that launch together" if group else ""
            return Run(
                ActivityName.LAUNCH,
                LaunchInput(
                    claim=state.claim,
                    request=state.request,
                    attempt=state.attempt,
                    unsettled=launch_retry.is_unsettled(state.launch_unsettled_until, now),
                ),
                f"{state.request.capacity_type}, {len(types)} instance types{together}",
            )
        case Stage.REGISTERING if state.check_now:
            return Run(ActivityName.REGISTER, _node_input(state), _instance_text(state))
        case Stage.LIVE if state.disrupted:
            return Run(ActivityName.WITHDRAW, _node_input(state), f"{state.node_name} stays")
        case Stage.INITIALIZING | Stage.LIVE | Stage.REBOOTING if state.expired:
            expiration_input = ExpirationInput(claim=state.claim, pool=state.pool, expired_at=expiry(state))
            return Run(ActivityName.CHECK_EXPIRATION, expiration_input, f"may a node of {state.pool} leave at once?")
        case Stage.INITIALIZING if state.check_now:
            binds = bool(state.planned_pods and not state.pods_were_bound)
            initialize_input = InitializeInput(**_node_input(state).model_dump(), binds=binds)
            return Run(
                ActivityName.INITIALIZE,
                initialize_input,
                f"checks whether {state.node_name} is ready",
                quick=not binds,
            )
        case Stage.BINDING:
            return Run(
                ActivityName.BIND, _node_input(state), f"{counted(state.planned_pods, 'pod')} -> {state.node_name}"
            )
        case Stage.LIVE:
            if state.spread_until is not None:
                return Wait(state.spread_until, LEAVES_OVERDUE)
            return _wait_for_expiry(state)
        case Stage.REBOOTING if state.reboot is not None:
            return reboot_step(state, state.reboot, _node_input(state), now)
        case Stage.CORDONING | Stage.DRAINING | Stage.DETACHING | Stage.TERMINATING | Stage.RELEASING:
            return _leaving_step(state, now)
        case Stage.ENDED:
            return End()
        case _:
            expires_at = next_expiry(state)
            if state.deadline is not None and expires_at is not None and expires_at < state.deadline:
                return _wait_for_expiry(state)
            if state.stage is Stage.REGISTERING:
                looks_at = _usual_start(state, now)
                return Wait(state.deadline, NO_NODE_JOINS if looks_at is None else STARTS_LATE, looks_at=looks_at)
            return Wait(
                state.deadline, "Then Tenon checks the node again", slack=timedelta() if state.checks else FIRST_CHECK
            )


def _wait_for_expiry(state: NodeState) -> Wait:
    expires_at = next_expiry(state)
    return Wait(expires_at, EXPIRES if expires_at == expiry(state) else ASKS_AGAIN)


def _usual_start(state: NodeState, now: datetime) -> datetime | None:
    """Return when a node that starts as usual is live, if that is still to come."""
    if state.deadline is None:
        return None
    usual_start = state.deadline - REGISTRATION_TIMEOUT + STARTS_WITHIN
    return usual_start if usual_start > now else None


def _leaving_step(state: NodeState, now: datetime) -> Step:
    if state.check_now is False and state.deadline is not None and now < state.deadline:
        return Wait(state.deadline, _AGAIN[state.stage])
    base = _node_input(state).model_dump()
    force = state.leave.force if state.leave else False
    match state.stage:
        case Stage.CORDONING:
            leave = state.leave
            return Run(
                ActivityName.CORDON,
                CordonInput(
                    **base,
                    removal=leave.plain if leave else Removal(reason=""),
                    only_if_empty=bool(leave and leave.only_if_empty),
                    unused=bool(leave and leave.unused),
                    termination_timestamp=leaving_stages.forced_from(leave) if leave else None,
                    fault=leave.fault if leave else "",
                    why=leave_text.why_it_leaves(state),
                    life=leave_text.life(state),
                    drain=_drain_input(state),
                ),
                f"{state.node_name or state.claim.name}: {camel_case(leave.reason) if leave else ''}",
            )
        case Stage.DRAINING:
            return Run(
                ActivityName.DRAIN,
                _drain_input(state),
                f"{state.node_name}{' by force' if force else ''}",
                overtaken_by_force=not force,
            )
        case Stage.DETACHING:
            return Run(
                ActivityName.DETACH_VOLUMES,
                DetachInput(**base, force_at=state.leave.asked_at if state.leave and force else state.force_at),
                f"{counted(state.volumes_attached, 'volume')} of {state.node_name}",
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
                    release=_release_input(state),
                ),
                _instance_text(state),
            )
        case _:
            return Run(ActivityName.RELEASE, _release_input(state), state.claim.name)


def _drain_input(state: NodeState) -> DrainInput:
    return DrainInput(
        **_node_input(state).model_dump(),
        force_at=state.force_at,
        force=bool(state.leave and state.leave.force),
        pool=state.pool,
        budget_seconds=leaving_stages.DRAIN_SECONDS,
        report_blocked_after=leaving_stages.report_blocked_after(state),
        instance_gone=state.instance_gone,
        reason=state.leave.reason if state.leave else "",
        why=leave_text.why_it_leaves(state),
    )


def _release_input(state: NodeState) -> ReleaseInput:
    instance = state.instance
    return ReleaseInput(
        **_node_input(state).model_dump(),
        pool=state.pool,
        capacity_type=instance.capacity_type if instance else "",
        zone=instance.zone if instance else "",
        reason=state.leave.reason if state.leave else "",
        created_at=state.created_at,
        deletion_started_at=state.deletion_started_at,
        already_deleted=bool(state.leave and state.leave.already_deleted),
    )


def _node_input(state: NodeState) -> NodeInput:
    return NodeInput(
        claim=state.claim,
        provider_id=state.instance.provider_id if state.instance else "",
        node_name=state.node_name,
    )


def _instance_text(state: NodeState) -> str:
    instance = state.instance
    return f"{instance.id} {instance.instance_type} {instance.zone}" if instance else state.claim.name
