"""How a disruption command waits for a person, and what the person answers.

People answer in Temporal's UI, with `tenon approve` or with `tenon refuse`, and all three send these messages.
"""

from datetime import datetime
from enum import StrEnum

from tenon.messages.base import Message
from tenon.messages.node import Operator

REFUSED_HOURS, MAX_REFUSED_HOURS = 24.0, 720.0
"""How long the nodes of a refused command are left alone, by default and at most."""


class ApprovalAnswer(StrEnum):
    """How the wait of a command for a person ended."""

    APPROVED = "approved"
    REFUSED = "refused"
    UNANSWERED = "unanswered"
    STALE = "stale"
    """What it was decided for does not hold any more."""
    CANCELLED = "cancelled"
    """An operator cancelled the command."""


class AwaitsApproval(Message):
    """A command does nothing until a person approves it."""

    seconds: float
    """How long it waits. Then it counts as refused."""


class Refusal(Operator):
    """Refuses a command that waits for approval. People type it in Temporal's UI."""

    hours: float = REFUSED_HOURS
    """How long its nodes are left alone."""


class Approval(Message):
    """How the wait of a command for a person ended."""

    answer: ApprovalAnswer
    by: str = ""
    """Who answered."""
    reason: str = ""
    """Why, with the ticket, or why there was no answer."""
    at: datetime
    seconds: float = 0.0
    """How long the command waited."""

    @property
    def text(self) -> str:
        """The answer in a clause."""
        because = f": {self.reason}" if self.reason else ""
        match self.answer:
            case ApprovalAnswer.APPROVED:
                return f"{self.by} approved it{because}"
            case ApprovalAnswer.REFUSED:
                return f"{self.by} refused it{because}"
            case ApprovalAnswer.UNANSWERED:
                return "no one approved it in time"
            case ApprovalAnswer.STALE:
                return f"it was withdrawn before it was approved{because}"
            case ApprovalAnswer.CANCELLED:
                return f"it was cancelled before it was approved{because}"
