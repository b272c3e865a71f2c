"""Whether a node accepts a disruption command, and what becomes of an accepted one."""

from __future__ import annotations

from datetime import datetime

from tenon.evolve import evolve
from tenon.lifecycle import termination
from tenon.lifecycle.leave_text import command_text
from tenon.lifecycle.messages.node import Disrupt, DisruptAnswer
from tenon.lifecycle.state import NodeState, PendingDisruption, Stage
from tenon.lifecycle.steps import LeaveRequest
from tenon.lifecycle.timeline import record


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


def disrupted(state: NodeState, event: Disrupt, now: datetime) -> NodeState:
    """Leave now, or at the time that the command names; stay if the command is not accepted."""
    if not answer(state, event, now).accepted:
        return state
    if event.not_before is not None and event.not_before > now:
        pending = PendingDisruption(
            command=event.command,
            reason=event.reason,
            detail=event.detail,
            due=event.not_before,
            since=event.since,
            only_if_empty=event.only_if_empty,
        )
        text = f"{event.reason}; leaves at {event.not_before:%H:%M:%S} if still so"
        return record(evolve(state, pending=pending), now, text)
    actor = command_text(event.command)
    request = LeaveRequest(reason=event.reason, detail=event.detail, actor=actor, since=event.since)
    return termination.leave(state, request, now, only_if_empty=event.only_if_empty)
