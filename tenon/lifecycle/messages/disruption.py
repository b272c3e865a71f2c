"""The messages of the disruption workflow: which nodes leave, and what became of it."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from tenon.lifecycle.messages.base import Message


class LedgerEntry(Message):
    """One node that leaves because of a command that has not finished."""

    command: str
    reason: str
    pool: str
    until: datetime
    due: datetime | None = None
    """When the node was due to leave."""


class AwaitDisruptionInput(Message):
    """Waits until a node may be disrupted within its budgets."""

    cluster: str
    wait_seconds: float = 600.0
    ledger: dict[str, LedgerEntry] = Field(default_factory=dict)
    """The open command of each claim, by claim name."""


class DisruptionCandidate(Message):
    """One node that a command removes."""

    claim: str
    uid: str
    pool: str
    since: datetime
    """When the command's reason started to hold."""
    due: datetime
    """When the node leaves if the reason still holds."""


class DisruptionCommand(Message):
    """Nodes to remove together, and why."""

    id: str
    reason: str
    candidates: list[DisruptionCandidate]
    only_if_empty: bool | None = None
    """Each node stays if it has a pod after it is tainted.

    None in messages of earlier versions, which only knew the reason Empty, for which this is true.
    """


class DisruptionDecision(Message):
    """Commands to carry out now; empty if the wait ended without any.

    ``gone`` lists the ledger entries that are settled.
    """

    commands: list[DisruptionCommand] = Field(default_factory=list)
    gone: list[str] = Field(default_factory=list)


class DisruptInput(Message):
    """Carries out a command: asks each candidate's workflow to leave."""

    cluster: str
    command: DisruptionCommand


class DisruptResult(Message):
    """Claim names by answer."""

    accepted: list[str] = Field(default_factory=list)
    refused: dict[str, str] = Field(default_factory=dict)
