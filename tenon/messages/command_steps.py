"""The workflow of one disruption command: its input, its progress, and the inputs of its steps."""

from datetime import datetime

from pydantic import Field

from tenon.messages.awaited_replacements import AwaitedReplacement
from tenon.messages.base import Message, WorkflowInput
from tenon.messages.command_approval import Approval
from tenon.messages.disruption import DisruptionCommand, MeasuredSaving


class CommandProgress(Message):
    """How far a command has come. A query answers it."""

    timeline: list[str] = Field(default_factory=list)
    """What it has done, a line each, with the time."""
    waits: str = ""
    """What it waits for now, in a clause; empty if it acts."""
    approve_until: datetime | None = None
    """Set while it waits for a person: when it counts as refused."""
    approval: Approval | None = None
    """How that wait ended."""


class DisruptInput(WorkflowInput):
    """Carries out a command: asks each candidate's workflow to leave."""

    cluster: str
    command: DisruptionCommand
    plan_queue: str = ""
    """The task queue of the leader that decided it."""
    awaited: AwaitedReplacement | None = None
    """Set if the node has left first, and an earlier run waited for its replacement."""


class ReplacementsInput(Message):
    """Looks once at what replaces the candidates of a command, which must be ready before ``until``."""

    cluster: str
    command: DisruptionCommand
    until: datetime


class FinishInput(Message):
    """Ends a command's claim on its nodes.

    Candidates in ``stay`` lose its taint and condition. With ``undo``, the replacements go unless pods run on them.
    """

    cluster: str
    command: DisruptionCommand
    stay: list[str] = Field(default_factory=list)
    undo: bool = False


class MeasureInput(Message):
    """Compares what a command saves with what was predicted. ``leaving_claims``: the NodeClaims that leave."""

    cluster: str
    command: DisruptionCommand
    leaving_claims: list[str]


class MeasureResult(Message):
    """What the command saves, by NodePool of its candidates. Empty if a price is not known."""

    pools: dict[str, MeasuredSaving] = Field(default_factory=dict)
