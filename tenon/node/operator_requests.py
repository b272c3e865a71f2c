"""What an operator asks of a node, by an update or a signal of its workflow, and whether the node does it.

An update is answered, so it must say who asks. A signal, which Temporal's UI and CLI send with one click, may say
nothing, and a node that does not do what it asks for only notes it.
"""

from __future__ import annotations

from datetime import UTC, datetime

from tenon.apis.reasons import Reason
from tenon.kube.timestamps import time_text
from tenon.messages.node import Keep, Operator, OperatorAnswer
from tenon.node.leave_text import MAX_DETAIL, MAX_NAME, removal_text
from tenon.node.state import NodeState, Stage
from tenon.node.steps import LeaveRequest
from tenon.sentences import shortened

BY_SIGNAL = "an operator, by a Temporal signal"
"""The actor of a signal that does not say who sends it."""
_BEFORE_ALL, _ALWAYS = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def why_invalid(operator: Operator) -> str:
    """Return what an update lacks; empty if it is complete."""
    if not operator.by.strip():
        return 'Say who asks, for example {"by": "ann", "reason": "its disk is slow"}.'
    for name, limit in (("by", MAX_NAME), ("reason", MAX_DETAIL), ("ticket", MAX_NAME)):
        if (length := len(getattr(operator, name))) > limit:
            return f"{name} has {length} characters: {limit} are the most."
    return ""


def actor_of(operator: Operator | None) -> str:
    """Return who asks. Temporal's UI and CLI send nothing by themselves."""
    return _one_line(operator.by, MAX_NAME) if operator is not None and operator.by.strip() else BY_SIGNAL


def reason_of(operator: Operator | None) -> str:
    """Return why, with the ticket: 'its disk is slow, OPS-12'; empty if the operator does not say it."""
    if operator is None:
        return ""
    return ", ".join(filter(None, (_one_line(operator.reason, MAX_DETAIL), _one_line(operator.ticket, MAX_NAME))))


def _one_line(text: str, limit: int) -> str:
    """Return the text without line breaks and not too long: signals are not validated."""
    return shortened(" ".join(text.split()), limit)


def drain(operator: Operator | None) -> LeaveRequest:
    """Return the request to leave that respects PodDisruptionBudgets."""
    return _leave(Reason.DRAIN, operator)


def force_drain(operator: Operator | None) -> LeaveRequest:
    """Return the request to leave that deletes the pods at once."""
    return _leave(Reason.FORCE_DRAIN, operator, force=True)


def expire(operator: Operator | None) -> LeaveRequest:
    """Return the request to leave as if the node's expiry had come."""
    return _leave(Reason.EXPIRED, operator)


def _leave(reason: Reason, operator: Operator | None, *, force: bool = False) -> LeaveRequest:
    return LeaveRequest(reason=reason, detail=reason_of(operator), actor=actor_of(operator), force=force)


def answer(state: NodeState, request: LeaveRequest | Keep, now: datetime) -> OperatorAnswer:
    """Decide whether the node does what is asked. Call it before applying the request."""
    if state.stage is Stage.ENDED:
        return OperatorAnswer(accepted=False, why="it is gone")
    leave = state.leave
    if isinstance(request, Keep):
        if state.stage.leaving or leave is not None:
            return OperatorAnswer(accepted=False, why=f"it is leaving already: {removal_text(leave) if leave else ''}")
        is_kept = state.keep_until is not None and state.keep_until > now
        if request.until <= now and not is_kept:
            why = f"{time_text(request.until)} is over, and no earlier request keeps it"
            return OperatorAnswer(accepted=False, why=why)
        return OperatorAnswer(accepted=True)
    stays_otherwise = leave is not None and leave.only_if_empty and state.stage is Stage.CORDONING
    if leave is None or stays_otherwise or (request.force and not leave.force):
        return OperatorAnswer(accepted=True)
    return OperatorAnswer(accepted=False, why=f"it is leaving already: {removal_text(leave)}")


def offered(state: NodeState) -> list[str]:
    """Return the names of the requests that the node would do as it is now; none once its instance is gone."""
    if state.stage in (Stage.RELEASING, Stage.ENDED):
        return []
    requests: dict[str, LeaveRequest | Keep] = {
        "drain": drain(None),
        "force_drain": force_drain(None),
        "expire": expire(None),
        "keep": Keep(until=_ALWAYS),
    }
    return [name for name, request in requests.items() if answer(state, request, _BEFORE_ALL).accepted]


def kept_text(keep: Keep, now: datetime) -> str:
    """Return the line of the timeline for a request to keep the node, which ends an earlier one if its time is over."""
    reason = reason_of(keep)
    because = f": {reason}" if reason else ""
    line = "no longer kept" if keep.until <= now else f"kept until {time_text(keep.until)}"
    return f"{line}{because} ({actor_of(keep)})"
