"""Stops instances that are kept for later, and starts them again.

Both calls may be repeated: an instance that stops or is stopped stays so, and one that starts or runs goes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from activities.ec2.client import Ec2
from activities.ec2.errors import EC2Error, translated

WRONG_STATE = frozenset({"IncorrectInstanceState", "IncorrectState"})
"""The instance is just changing its state, so that the call may succeed soon."""


class StopOutcome(StrEnum):
    """What becomes of a call that stops or starts an instance."""

    ACCEPTED = "accepted"
    LATER = "later"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class StopReply:
    """EC2's answer, as far as it matters."""

    outcome: StopOutcome
    message: str = ""
    """What EC2 said, if it did not accept the call."""


def stop_instance(clients: Ec2, instance_id: str) -> StopReply:
    """Stop an instance. It keeps its volumes and its private address."""
    try:
        with translated("StopInstances"):
            clients.ec2.stop_instances(InstanceIds=[instance_id])
    except EC2Error as error:
        return _refused(error)
    return StopReply(StopOutcome.ACCEPTED)


def start_instance(clients: Ec2, instance_id: str) -> StopReply:
    """Start a stopped instance. EC2 may have no capacity for it, as for a launch."""
    try:
        with translated("StartInstances"):
            clients.ec2.start_instances(InstanceIds=[instance_id])
    except EC2Error as error:
        return _refused(error)
    return StopReply(StopOutcome.ACCEPTED)


def _refused(error: EC2Error) -> StopReply:
    is_passing = error.retryable or error.code in WRONG_STATE
    return StopReply(StopOutcome.LATER if is_passing else StopOutcome.REFUSED, error.explained)
