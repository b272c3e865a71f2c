"""Disruption commands as messages: to the command's workflow, and from there to each node's workflow."""

from __future__ import annotations

import hashlib

from tenon.apis.reasons import Reason
from tenon.disruption.model import Command
from tenon.lifecycle.messages.disruption import DisruptionCandidate, DisruptionCommand
from tenon.lifecycle.messages.node import Disrupt


def to_message(command: Command) -> DisruptionCommand:
    """Return the command's message. The same nodes and reason give the same ID, so a retry is not a second command."""
    candidates = [
        DisruptionCandidate(
            claim=candidate.node.claim,
            uid=candidate.node.uid,
            pool=candidate.node.pool,
            since=candidate.since,
            due=candidate.leaves_at,
        )
        for candidate in command.candidates
    ]
    text = "/".join(f"{candidate.uid}@{candidate.since.isoformat()}" for candidate in candidates)
    return DisruptionCommand(
        id=f"{command.reason.snake_case}-{hashlib.sha256(text.encode()).hexdigest()[:12]}",
        reason=command.reason,
        candidates=candidates,
        only_if_empty=command.only_if_empty,
    )


def disrupt_request(command: DisruptionCommand, candidate: DisruptionCandidate) -> Disrupt:
    """Return the request to a candidate's workflow."""
    only_if_empty = command.only_if_empty
    if only_if_empty is None:  # from an earlier version, which knew only the reason Empty
        only_if_empty = command.reason == Reason.EMPTY
    return Disrupt(
        command=command.id,
        reason=command.reason,
        since=candidate.since,
        not_before=candidate.due,
        only_if_empty=only_if_empty,
    )
