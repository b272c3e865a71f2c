"""What a node's workflow can do next: run one activity, wait, or end."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from tenon.messages.base import ActivityName, Message
from tenon.messages.node import Removal


@dataclass(frozen=True, slots=True)
class Run:
    """Run one activity. Its result is the next event.

    With ``overtaken_by_force``, an operator's request to force the drain cancels the activity. ``quick``: it may run
    as a local activity first, if the options of the activity say so.
    """

    activity: ActivityName
    input: Message
    summary: str
    overtaken_by_force: bool = False
    quick: bool = True


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for events, at most until ``until``. ``summary`` says what happens at that time.

    Timers are billed, so a timer of an earlier wait that is over by then is used again. It may be over up to ``slack``
    later. ``looks_at``: when to set the first timer for, so that it also serves the waits that usually follow.
    """

    until: datetime | None
    summary: str = "Tenon checks the node again"
    slack: timedelta = timedelta()
    looks_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class End:
    """The workflow is done."""


Step = Run | Wait | End


class Failed(Message):
    """An activity failed for good."""

    activity: ActivityName
    message: str
    again: bool = False
    """A launch without a known outcome: it is retried, however late it is."""
    not_managed: bool = False
    """The activity refused because the NodeClaim belongs to another controller."""


class DeadlinePassed(Message):
    """The time of a `Wait` has come."""


class LeaveRequest(Removal):
    """An operator, an expiry, a command or a deletion removes the node. ``force`` deletes pods without eviction."""

    force: bool = False
    since: datetime | None = None
    already_deleted: bool = False
    """Its NodeClaim is being deleted already."""
    unused: bool = False
    """It was bought for a command that has failed, so nothing that protects it keeps it."""
    drain_seconds: float | None = None
    """The most time that the drain may take, if a disruption command says it."""
    fault: str = ""
    """The type of the condition for which node repair removes the node."""


class KeepRecorded(Message):
    """The operator's keep request is on the claim."""


class Withdrawn(Message):
    """A cordon without a following deletion is removed from the node. ``removed`` is false if there was none."""

    removed: bool = False
