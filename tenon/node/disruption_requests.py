"""Whether a node accepts a disruption command, and what becomes of an accepted one."""

from __future__ import annotations

from datetime import datetime

from tenon.apis.reasons import Reason
from tenon.kube.timestamps import time_text
from tenon.messages.node import Disrupt, DisruptAnswer
from tenon.node import leaving_stages
from tenon.node.leave_text import command_text, removal_text
from tenon.node.state import NodeState, Stage
from tenon.node.steps import LeaveRequest

UNINITIALIZED = frozenset({Stage.INITIALIZING, Stage.BINDING})
"""The stages of a node that has joined and is not live yet, in which only repair removes it (N15-122)."""


def answer(state: NodeState, command: Disrupt, now: datetime) -> DisruptAnswer:
    """Decide whether the node accepts a disruption command. Call it before applying the command.

    An unhealthy node is replaced although it never initialized, or an operator wants to keep it.
    """
    price = state.instance.price if state.instance else 0.0
    if state.stage.leaving or state.leave is not None:
        why = f"already leaving: {removal_text(state.leave) if state.leave else ''}"
        return DisruptAnswer(accepted=False, why=why, leaving=True)
    if state.stage is Stage.REBOOTING:
        return DisruptAnswer(accepted=False, why="its machine reboots")
    if Reason.of(command.reason) is Reason.UNHEALTHY and state.stage in (Stage.LIVE, *UNINITIALIZED):
        return DisruptAnswer(accepted=True, price=price)
    if state.stage is not Stage.LIVE:
        return DisruptAnswer(accepted=False, why=f"not live yet: {state.stage.value}")
    if state.keep_until is not None and now < state.keep_until:
        return DisruptAnswer(accepted=False, why=f"kept until {time_text(state.keep_until)}")
    return DisruptAnswer(accepted=True, price=price)


def disrupted(state: NodeState, event: Disrupt, now: datetime) -> NodeState:
    """Leave; stay if the command is not accepted."""
    if not answer(state, event, now).accepted:
        return state
    actor = command_text(event.command)
    request = LeaveRequest(
        reason=event.reason,
        detail=event.detail,
        actor=actor,
        since=event.since,
        drain_seconds=event.drain_seconds,
        fault=event.fault,
        unused=event.unused,
    )
    return leaving_stages.leave(state, request, now, only_if_empty=event.only_if_empty)
