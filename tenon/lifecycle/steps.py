"""What a node's workflow may be told to do next: run one activity, wait, or end."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tenon.lifecycle.messages import ActivityName, Message


@dataclass(frozen=True, slots=True)
class Run:
    """Run one activity; its result is the next event. An ``urgent`` wish of an operator may overtake it."""

    activity: ActivityName
    input: Message
    summary: str
    overtaken_by_force: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for news, at the latest until an instant; ``what`` is what the instant means."""

    until: datetime | None
    what: str = "look again"


@dataclass(frozen=True, slots=True)
class End:
    """The life is over."""


Step = Run | Wait | End


class Failed(Message):
    """An activity gave up for good."""

    activity: ActivityName
    message: str
    again: bool = False
    """A launch that had no outcome is tried again, however late it is."""
    not_managed: bool = False
    """It refused because the NodeClaim is another controller's."""


class DeadlinePassed(Message):
    """The instant that a `Wait` named has come."""


class LeaveRequest(Message):
    """An operator, an expiry or a command wants the node gone; ``force`` deletes pods without asking them."""

    reason: str
    message: str = ""
    force: bool = False
    command: str = ""


class KeepRecorded(Message):
    """The operator's wish stands on the claim."""


class Withdrawn(Message):
    """The marks of a cordon that nothing follows are off the node; ``removed`` is false when there were none."""

    removed: bool = False
