"""What people answer to a command that waits for their approval, and what follows from it."""

from __future__ import annotations

from datetime import datetime, timedelta

from tenon.messages.command_approval import MAX_REFUSED_HOURS, Approval, ApprovalAnswer, Refusal
from tenon.messages.node import Operator, OperatorAnswer
from tenon.node import operator_requests
from tenon.node.operator_requests import actor_of, reason_of

UNANSWERED_PAUSE = timedelta(hours=1)
"""How long the nodes of a command that no one answered are left alone. Then a new command may ask again."""
BUDGETS_WITHIN = timedelta(hours=24)
"""How long an approved command waits until the budgets and windows of its NodePools let it start."""
FIRST_RETRY, LAST_RETRY = timedelta(minutes=1), timedelta(minutes=30)
"""How long such a command waits before it asks for a place in the budgets again, the first time and at most."""


def why_invalid(operator: Operator) -> str:
    """Return what an answer lacks; empty if it is complete."""
    if isinstance(operator, Refusal) and not 0 < operator.hours <= MAX_REFUSED_HOURS:
        return f"hours is {operator.hours:g}: write a number above 0, and up to {MAX_REFUSED_HOURS:.0f}."
    return operator_requests.why_invalid(operator)


def approved(operator: Operator, now: datetime) -> Approval:
    """Return the approval of a command."""
    return Approval(answer=ApprovalAnswer.APPROVED, by=actor_of(operator), reason=reason_of(operator), at=now)


def refused(refusal: Refusal, now: datetime) -> Approval:
    """Return the refusal of a command."""
    return Approval(answer=ApprovalAnswer.REFUSED, by=actor_of(refusal), reason=reason_of(refusal), at=now)


def unanswered(now: datetime) -> Approval:
    """Return the end of a command that no one answered."""
    return Approval(answer=ApprovalAnswer.UNANSWERED, at=now)


def stale(why: str, now: datetime) -> Approval:
    """Return the end of a command that is not needed any more."""
    return Approval(answer=ApprovalAnswer.STALE, reason=why, at=now)


def cancelled(why: str, now: datetime) -> Approval:
    """Return the end of a command that an operator cancelled while it waited."""
    return Approval(answer=ApprovalAnswer.CANCELLED, reason=why, at=now)


def answer_to(*, asks: bool, approval: Approval | None, ends: str) -> OperatorAnswer:
    """Return whether the command takes an approval or a refusal.

    Args:
        asks: whether it waits for one, or did.
        approval: how its wait ended, if it did.
        ends: why it ends without an answer, if it does.
    """
    if not asks:
        return OperatorAnswer(accepted=False, why="it does not wait for approval")
    if approval is not None:
        return OperatorAnswer(accepted=False, why=f"it has its answer: {approval.text}")
    if ends:
        return OperatorAnswer(accepted=False, why=f"it ends: {ends}")
    return OperatorAnswer(accepted=True)


def pause_after(approval: Approval, hours: float) -> timedelta:
    """Return how long the nodes of a command that was not approved are left alone. ``hours``: as a refusal says it."""
    return timedelta(hours=hours) if approval.answer is ApprovalAnswer.REFUSED else UNANSWERED_PAUSE


def next_retry(pause: timedelta) -> timedelta:
    """Return how long to wait next for a place in the budgets."""
    return min(pause * 2, LAST_RETRY)
