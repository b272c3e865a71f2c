"""The messages of the disruption workflow: which nodes leave, and what became of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from tenon.messages.base import Message

REBOOT = "reboot"
"""The decision of a command that reboots a node, and removes and replaces nothing."""


class OpenCommand(Message):
    """One node that leaves because of a command that has not finished."""

    command: str
    reason: str
    pool: str
    until: datetime
    due: datetime | None = None
    """When the node may leave. None for a command that moves pods: it leaves when its replacements are ready."""
    since: datetime
    """When the command started."""
    postponed: bool = False
    """The command failed. Until ``until``, no command that moves pods takes the node. It may leave if it is empty."""
    hosts: list[str] = Field(default_factory=list)
    """The NodeClaims that the command moves pods to. Only the entry of its first node has them."""


class MeasuredSaving(Message):
    """What a command saves, in dollars an hour. Negative if it costs more."""

    predicted: float
    """If every new node had been launched as its cheapest type."""
    reached: float
    """What left, minus what was launched in its place."""


class PoolSavings(Message):
    """The last consolidation commands of a NodePool, which all saved clearly less than predicted."""

    short: int
    """How many in a row."""
    predicted: float
    """Dollars an hour, together."""
    reached: float
    at: datetime
    """When the last of them was measured."""


class LastLooked(Message):
    """The last node of a NodePool that consolidation looked at, and its rank."""

    price_per_cost: float
    claim: str


class LookCursor(Message):
    """How far consolidation has looked through a cluster that is too large for one look."""

    last: dict[str, LastLooked] = Field(default_factory=dict)
    """By NodePool. A NodePool that is missing begins with its first node."""
    more: bool = False
    """Whether nodes wait for the next look. If not, a new round begins."""
    most: int = 0
    """How many nodes the next look considers; 0 for the default. Fewer after a look that ran out of time."""


class AwaitDisruptionInput(Message):
    """Waits until a node may be disrupted within its budgets."""

    cluster: str
    wait_seconds: float = 600.0
    ledger: dict[str, OpenCommand] = Field(default_factory=dict)
    """The open command of each claim, by claim name."""
    savings: dict[str, PoolSavings] = Field(default_factory=dict)
    """By NodePool, the last commands that saved less than predicted."""
    cursor: LookCursor = Field(default_factory=LookCursor)
    """As the last decision said it."""


class DisruptionCandidate(Message):
    """One node that a command removes."""

    claim: str
    uid: str
    pool: str
    since: datetime
    """When the command's reason started to hold."""
    pods: list[str] = Field(default_factory=list)
    """`pod_mark` of each pod that the command moves from this node."""
    price: float = 0.0
    """Dollars an hour of its offering; 0 if it is not known."""


class Replacement(Message):
    """A NodeClaim that must be initialized before the candidates leave."""

    name: str
    pool: str
    body: dict[str, Any]
    """The NodeClaim as it is written to the API server."""


class RepairCause(Message):
    """The fault of a node that a command repairs."""

    condition: str
    status: str
    reason: str = ""
    """That of the condition."""
    drain_seconds: float | None = None
    """The most time that the drain may take, by the repair policies; None if they set no bound."""


class DisruptionCommand(Message):
    """Nodes to remove together, why, and what comes in their place."""

    id: str
    reason: str
    candidates: list[DisruptionCandidate]
    only_if_empty: bool = False
    """Each node stays if it has a pod after it is tainted."""
    moves_pods: bool = False
    """The candidates may have pods: the command is validated, prepared and, on a failure, undone."""
    graceful: bool = True
    """Gives way to a pod that may not be moved, and is validated after a delay."""
    consolidation_type: str = ""
    replacements: list[Replacement] = Field(default_factory=list)
    saving: float = 0.0
    """Dollars an hour that it saves at least, as planned."""
    predicted: float = 0.0
    """Dollars an hour that it saves if the cheapest types are launched."""
    pods: int = 0
    """How many pods it moves."""
    surge: list[str] = Field(default_factory=list)
    """Deployments (``namespace/name``) with a pod on a candidate that asks to start its new pod first."""
    explanation: list[str] = Field(default_factory=list)
    arrivals: dict[str, dict[str, int]] = Field(default_factory=dict)
    """By NodeClaim to which its pods move: by `workload_mark`, how often they have moved in the last day then."""
    sent: dict[str, dict[str, int]] = Field(default_factory=dict)
    """By the same, how many pods move there."""
    leaves_from: datetime | None = None
    """Its pods are not evicted before then, so that other commands of the same look have tainted their nodes too."""
    decision: str = ""
    """What it does, as metrics name it: delete, replace or reboot."""
    repair: RepairCause | None = None
    """The fault that it repairs."""


class DisruptionDecision(Message):
    """Commands to carry out now; empty if the wait ended without any.

    ``gone`` lists the NodeClaims whose commands are over.
    """

    commands: list[DisruptionCommand] = Field(default_factory=list)
    gone: list[str] = Field(default_factory=list)
    cursor: LookCursor | None = None
    """Where the next look goes on; None if no look has ended since the call began."""


class DisruptInput(Message):
    """Carries out a command: asks each candidate's workflow to leave."""

    cluster: str
    command: DisruptionCommand
    plan_queue: str = ""
    """The task queue of the leader that decided it."""


class DisruptResult(Message):
    """Claim names by answer. ``failure``: why the command was undone before any candidate was asked."""

    accepted: list[str] = Field(default_factory=list)
    refused: dict[str, str] = Field(default_factory=dict)
    failure: str = ""
    leaving: list[str] = Field(default_factory=list)
    """Those of the refused that are already leaving, or are gone."""
    saving: MeasuredSaving | None = None
    """What it saves; None if it was undone, or if a price is not known."""


class StepResult(Message):
    """Whether a step of a command succeeded. ``failure`` says why not, in one clause; empty if it did.

    ``waits`` says what the step must still wait for; empty if nothing.
    """

    failure: str = ""
    waits: str = ""
    instead: DisruptionCommand | None = None
    """The command that starts in the place of the one that was validated, with other replacements."""


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
    """Compares what a command saves with what was predicted. ``left``: the NodeClaims that leave."""

    cluster: str
    command: DisruptionCommand
    left: list[str]


class MeasureResult(Message):
    """What the command saves, by NodePool of its candidates. Empty if a price is not known."""

    pools: dict[str, MeasuredSaving] = Field(default_factory=dict)


class SavingReport(Message):
    """Says what a consolidation command saves, by NodePool."""

    command: str
    started: datetime
    pools: dict[str, MeasuredSaving]


class Postponement(Message):
    """Nodes that a command could not remove, and for how many seconds no other command may remove them."""

    claims: list[str]
    seconds: float
