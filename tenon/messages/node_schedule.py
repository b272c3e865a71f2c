"""Messages of the workflow that a Temporal Schedule starts when a NodeSchedule changes what holds."""

# ruff: noqa: RUF012 - pydantic copies the defaults of fields

from tenon.messages.base import Message, WorkflowInput


class NodeScheduleInput(WorkflowInput):
    """Asks the leader to look at one NodeSchedule."""

    cluster: str
    name: str
    """The name of the NodeSchedule."""


class ScheduledPool(Message):
    """What schedules ask for a NodePool now."""

    name: str
    holds: str
    """What holds, in words."""
    until: str = ""
    """When something else holds, on the clock of the schedule; empty if that is more than eight days ahead."""
    nodes: int = 0
    """How many NodeClaims it has now."""


class NodeScheduleResult(Message):
    """What holds for the NodePools of a NodeSchedule now."""

    exists: bool = True
    """False if the NodeSchedule is gone, suspended or not valid, so that it asks for nothing."""
    pools: list[ScheduledPool] = []
    buffers: dict[str, int] = {}
    """Replicas of CapacityBuffers, by namespace/name."""
