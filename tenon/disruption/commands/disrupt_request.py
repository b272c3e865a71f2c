"""The request of a command to a node's workflow. The io process sends it, and so it needs no scheduling engine."""

from __future__ import annotations

from tenon.disruption.commands import cheaper_place
from tenon.messages.disruption import DisruptionCandidate, DisruptionCommand
from tenon.messages.node import Disrupt


def disrupt_request(command: DisruptionCommand, candidate: DisruptionCandidate) -> Disrupt:
    """Return the request to a candidate's workflow."""
    return Disrupt(
        command=command.id,
        reason=command.reason,
        detail=_detail(command),
        since=candidate.since,
        only_if_empty=command.only_if_empty,
        drain_seconds=command.repair.drain_seconds if command.repair is not None else None,
        fault=command.repair.condition if command.repair is not None else "",
    )


def _detail(command: DisruptionCommand) -> str:
    """Why the node leaves, in a clause. The explanation of a consolidation begins with the nodes, no reason."""
    if cheaper_place.moves_to_save(command):
        return cheaper_place.of_node(command)
    return next(iter(command.explanation), "")
