"""The request of a command to a node's workflow. The io process sends it, and so it needs no scheduling engine."""

from __future__ import annotations

from tenon.messages.disruption import DisruptionCandidate, DisruptionCommand
from tenon.messages.node import Disrupt


def disrupt_request(command: DisruptionCommand, candidate: DisruptionCandidate) -> Disrupt:
    """Return the request to a candidate's workflow."""
    return Disrupt(
        command=command.id,
        reason=command.reason,
        detail=next(iter(command.explanation), ""),
        since=candidate.since,
        only_if_empty=command.only_if_empty,
        drain_seconds=command.repair.drain_seconds if command.repair is not None else None,
        fault=command.repair.condition if command.repair is not None else "",
    )
