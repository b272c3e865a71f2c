"""Whether a node accepts a disruption command, and what becomes of an accepted one."""

from __future__ import annotations

from datetime import datetime

from tenon.messages.node import Disrupt, DisruptAnswer
from tenon.node import leaving_stages as termination
from tenon.node.leave_text import command_text
from tenon.node.state import NodeState, Stage
from tenon.node.steps import LeaveRequest


def answer(state: NodeState, now: datetime) -> DisruptAnswer:
    """Decide whether the node accepts a disruption command. Call it before applying the command."""
    if state.stage.leaving or state.leave is not None:
        why = f"already leaving: {state.leave.reason if state.leave else ''}"
        return DisruptAnswer(accepted=False, why=why, leaving=True)
    if state.stage is Stage.REBOOTING:
        return DisruptAnswer(accepted=False, why="its machine reboots")
    if state.stage is not Stage.LIVE:
        return DisruptAnswer(accepted=False, why=f"not live yet: {state.stage.value}")
    if state.keep_until is not None and now < state.keep_until:
        return DisruptAnswer(accepted=False, why=f"kept until {state.keep_until.isoformat()}")
    return DisruptAnswer(accepted=True)


def disrupted(state: NodeState, event: Disrupt, now: datetime) -> NodeState:
    """Leave; stay if the command is not accepted."""
    if not answer(state, now).accepted:
        return state
    actor = command_text(event.command)
    request = LeaveRequest(reason=event.reason, detail=event.detail, actor=actor, since=event.since)
    return termination.leave(state, request, now, only_if_empty=event.only_if_empty)
