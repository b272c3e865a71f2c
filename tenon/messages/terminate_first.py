"""Why a node leaves before its replacement starts, and what comes in its place."""

from enum import StrEnum

from pydantic import Field

from tenon.messages.base import Message


class TerminateFirstReason(StrEnum):
    """Why a node must leave before its replacement can start; the values of a metric's label."""

    NO_RESERVED_CAPACITY = "no-reserved-capacity"
    """The replacement needs the place that the node has in a capacity reservation."""
    STATIC_AT_LIMIT = "static-at-limit"
    """The node's static NodePool has as many replicas as its ``limits.nodes``."""


class IntendedReplacement(Message):
    """A node that ordinary provisioning buys once the candidate of a command is gone, as planned."""

    pool: str
    reservation: str = ""
    """The ID of the capacity reservation that it goes into; empty for none."""
    workloads: dict[str, int] = Field(default_factory=dict)
    """By `workload_mark`, how many pods wait for it."""


class TerminatesFirst(Message):
    """Why the candidate of a command leaves before its replacement starts, and what comes in its place."""

    reason: TerminateFirstReason
    intended: list[IntendedReplacement]
