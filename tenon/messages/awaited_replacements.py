"""The wait of a command for what replaces a node that left first.

Ordinary provisioning buys the replacement, so the command can only look for it, again and again.
"""

from datetime import datetime

from pydantic import Field

from tenon.messages.base import Message
from tenon.messages.disruption import DisruptionCommand, DisruptResult


class AwaitedReplacement(Message):
    """How far a command has come that waits for what replaces a node that left first."""

    since: datetime
    """When the node was asked to leave. What replaces it is created later."""
    result: DisruptResult
    gone_at: datetime | None = None
    """When the node was seen to be gone."""
    checks: int = 0
    """How often the command has looked for the replacement."""
    idle_since: datetime | None = None
    """Since when checks have found that no pod waits for the replacement, and nothing is launched for it."""
    timeline: list[str] = Field(default_factory=list)
    """What the command has done so far, for its page."""


class FindReplacementsInput(Message):
    """Looks once for what replaces a node that left first. ``since``: when the node was asked to leave."""

    cluster: str
    command: DisruptionCommand
    since: datetime


class FoundReplacements(Message):
    """What has come in the place of a node that left first."""

    leaving: list[str] = Field(default_factory=list)
    """The candidates that are still there."""
    running: list[str] = Field(default_factory=list)
    """The NodeClaims that replace them and are initialized."""
    starting: dict[str, str] = Field(default_factory=dict)
    """Those that are not, with what each waits for."""
    waiting_pods: int = 0
    """How many pods of the workloads that left have no node."""


class SettleReplacementsInput(Message):
    """Ends the wait for what replaces a node that left first."""

    cluster: str
    command: DisruptionCommand
    outcome: str
    """A value of `tenon.disruption.commands.awaited_replacements.ReplacementOutcome`."""
    text: str
    """What became of the replacement, in a clause."""
    claims: list[str]
    """The NodeClaims that are marked as replacements of the command."""
    seconds: float
    """How long the replacement took, from when the node was gone."""
