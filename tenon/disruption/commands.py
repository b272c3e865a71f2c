"""Disruption commands as messages: to the command's workflow, and from there to each node's workflow."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime

from tenon.apis.reasons import Reason
from tenon.disruption.model import Command
from tenon.kube.pod import Pod
from tenon.lifecycle.messages.disruption import DisruptionCandidate, DisruptionCommand, Replacement
from tenon.lifecycle.messages.node import Disrupt


def pod_mark(uid: str) -> str:
    """Return a short stand-in for a pod's UID, because a command may name thousands of pods."""
    return hashlib.sha256(uid.encode()).hexdigest()[:8]


def command_id(command: Command, at: datetime | None = None) -> str:
    """Return the command's ID, from its nodes and why they leave.

    ``at``: when the command was decided, for commands that may fail. The same nodes may get another command later, for
    which the nodes' workflows must not repeat their earlier answer.
    """
    names = [f"{candidate.node.uid}@{candidate.since.isoformat()}" for candidate in command.candidates]
    text = "/".join([*names, at.isoformat()] if at is not None else names)
    return f"{command.reason.snake_case}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def to_message(
    command: Command,
    *,
    ident: str = "",
    replacements: Sequence[Replacement] = (),
    pods: Mapping[str, Sequence[Pod]] | None = None,
) -> DisruptionCommand:
    """Return the command's message.

    Args:
        command: the command.
        ident: its ID; by default `command_id`, so that a retry is not a second command.
        replacements: the NodeClaims of its replacements.
        pods: by NodeClaim name, the pods that it moves from there.
    """
    moved = pods or {}
    candidates = [
        DisruptionCandidate(
            claim=candidate.node.claim,
            uid=candidate.node.uid,
            pool=candidate.node.pool,
            since=candidate.since,
            due=candidate.leaves_at,
            pods=[pod_mark(pod.uid) for pod in moved.get(candidate.node.claim, ())],
        )
        for candidate in command.candidates
    ]
    return DisruptionCommand(
        id=ident or command_id(command),
        reason=command.reason,
        candidates=candidates,
        only_if_empty=command.only_if_empty,
        moves_pods=command.moves_pods,
        graceful=command.graceful,
        consolidation_type=command.consolidation_type,
        replacements=list(replacements),
        saving=round(command.saving, 6),
        pods=sum(len(found) for found in moved.values()),
        explanation=list(command.explanation),
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
