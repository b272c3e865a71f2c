"""The messages of the disruption workflow: what it asks for, which commands it starts, and what these report to it."""

from datetime import datetime
from typing import Any

from pydantic import Field

from tenon.messages.base import POLL_SECONDS, Message
from tenon.messages.command_approval import Approval, AwaitsApproval
from tenon.messages.terminate_first import TerminatesFirst


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
    awaits_replacement: bool = False
    """The node leaves before its replacement starts. It counts against budgets, also when it is gone, until its command
    says that the replacement runs."""
    awaits_approval: bool = False
    """The command waits for a person. Budgets do not count the node, and no other command asks for it."""
    refused: str = ""
    """Who refused the command, and why, in a clause. The node is left alone until ``until``, and ``postponed``."""
    ended: bool = False
    """The command's workflow has ended. The node still counts until it is gone, or has not left in time."""

    @property
    def is_idle(self) -> bool:
        """Whether it only waits for a person, or for the end of a refusal: nothing is done with the node."""
        return self.awaits_approval or bool(self.refused)


class MeasuredSaving(Message):
    """What a command saves, in dollars an hour. Negative if it costs more."""

    predicted: float
    """If every new node had been launched as its cheapest type."""
    reached: float
    """What left, minus what was launched in its place."""


class RecentCommand(Message):
    """A command that started or ended a short time ago, for a line of the page."""

    text: str
    """When it started and what it does."""
    workflow_id: str
    outcome: str = ""
    """How it ended, or before that what it is to save, in a clause."""


class PoolSavings(Message):
    """The last consolidation commands of a NodePool, which all saved clearly less than predicted."""

    short: int
    """How many in a row."""
    predicted: float
    """Dollars an hour, together."""
    reached: float
    at: datetime
    """When the last of them was measured."""


class LastConsidered(Message):
    """The last node of a NodePool that consolidation looked at, and its rank."""

    price_per_cost: float
    claim: str


class PassCursor(Message):
    """How far consolidation has looked through a cluster that is too large for one pass."""

    last: dict[str, LastConsidered] = Field(default_factory=dict)
    """By NodePool. A NodePool that is missing begins with its first node."""
    more: bool = False
    """Whether nodes wait for the next pass. If not, a new round begins."""
    most: int = 0
    """How many nodes the next pass considers; 0 for the default. Fewer after a pass that ran out of time."""


class AwaitDisruptionInput(Message):
    """Waits until a node may be disrupted within its budgets."""

    cluster: str
    wait_seconds: float = POLL_SECONDS
    ledger: dict[str, OpenCommand] = Field(default_factory=dict)
    """The open command of each claim, by claim name."""
    savings: dict[str, PoolSavings] = Field(default_factory=dict)
    """By NodePool, the last commands that saved less than predicted."""
    cursor: PassCursor = Field(default_factory=PassCursor)
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
    node: str = ""
    """The name of its Node, by which people look for the command; empty if it has none yet."""


class Replacement(Message):
    """A NodeClaim that must be initialized before the candidates leave."""

    name: str
    pool: str
    body: dict[str, Any]
    """The NodeClaim as it is written to the API server."""
    instance_type: str = ""
    """Its cheapest type, for the record. ``body`` lists all types by name."""
    price: float = 0.0
    """Dollars an hour of that type."""


class RepairCause(Message):
    """The fault of a node that a command repairs."""

    condition: str
    status: str
    reason: str = ""
    """That of the condition."""
    drain_seconds: float | None = None
    """The most time that the drain may take, by the repair policies; None if they set no bound."""
    policy: str = ""
    """The NodeRepairPolicy of the fault."""

    @property
    def text(self) -> str:
        """The condition as events show it, such as ``StorageReady is False (IOError)``."""
        return f"{self.condition} is {self.status}" + (f" ({self.reason})" if self.reason else "")


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
    predicted: float = 0.0
    """Dollars an hour that it is to save: what leaves, minus the cheapest types of what comes."""
    pods: int = 0
    """How many pods it moves."""
    existing_nodes: int = 0
    """How many existing nodes get pods of it."""
    surge: list[str] = Field(default_factory=list)
    """Deployments (``namespace/name``) with a pod on a candidate that asks to start its new pod first."""
    explanation: list[str] = Field(default_factory=list)
    arrivals: dict[str, dict[str, int]] = Field(default_factory=dict)
    """By NodeClaim to which its pods move: by `workload_mark`, how often they have moved in the last day then."""
    arriving_workloads: dict[str, dict[str, int]] = Field(default_factory=dict)
    """By the same, how many pods move there."""
    leaves_from: datetime | None = None
    """Its pods are not evicted before then, so that other commands of the same pass have tainted their nodes too."""
    decision: str = ""
    """What it does, as metrics name it: delete, replace, terminate-first or reboot."""
    repair: RepairCause | None = None
    """The fault that it repairs."""
    terminate_first: TerminatesFirst | None = None
    """Set if its only candidate leaves before the replacement starts. Then it has no ``replacements``."""
    approval: AwaitsApproval | None = None
    """Set if it waits for a person first."""
    trace: str = ""
    """The span of the search that decided it, as a traceparent; empty without tracing."""


class DisruptionDecision(Message):
    """Commands to carry out now; empty if the wait ended without any.

    ``finished_claims`` lists the NodeClaims whose commands are over.
    """

    commands: list[DisruptionCommand] = Field(default_factory=list)
    finished_claims: list[str] = Field(default_factory=list)
    cursor: PassCursor | None = None
    """Where the next pass goes on; None if no pass has ended since the call began."""


class DisruptResult(Message):
    """Claim names by answer. ``failure``: why the command was undone before any candidate was asked."""

    accepted: list[str] = Field(default_factory=list)
    refused: dict[str, str] = Field(default_factory=dict)
    failure: str = ""
    leaving: list[str] = Field(default_factory=list)
    """Those of the refused that are already leaving, or are gone."""
    saving: MeasuredSaving | None = None
    """What it saves; None if it was undone, or if a price is not known."""
    prices: dict[str, float] = Field(default_factory=dict)
    """Dollars an hour of the instances of the accepted, as far as their workflows know them."""
    replaced_by: list[str] = Field(default_factory=list)
    """The NodeClaims that replace a node that left first."""
    replacement: str = ""
    """What became of that replacement, in a clause; empty for a command whose replacements start first."""
    approval: Approval | None = None
    """How its wait for a person ended; None if it did not wait."""


class StepResult(Message):
    """Whether a step of a command succeeded. ``failure`` says why not, in one clause; empty if it did.

    ``waits`` says what the step must still wait for; empty if nothing.
    """

    failure: str = ""
    waits: str = ""
    instead: DisruptionCommand | None = None
    """The command that starts in the place of the one that was validated, with other replacements."""
    why_instead: str = ""
    """Why, in a clause; empty if a person approved the command so late that its replacements were planned once more."""


class AwaitedReport(Message):
    """Says which nodes leave first, or left, and that budgets count them for so many seconds."""

    command: str
    reason: str
    pools: dict[str, str]
    """By NodeClaim, its NodePool."""
    seconds: float
    candidates_gone: bool = False
    """Whether they are gone, so that no pods move to other nodes any more."""


class SavingReport(Message):
    """Says what a consolidation command saves, by NodePool."""

    command: str
    started: datetime
    pools: dict[str, MeasuredSaving]


class ApprovedReport(Message):
    """Says that a command that waited for a person starts with these NodeClaims, and that budgets count them now."""

    command: str
    claims: list[str]
    moves_pods: bool


class Postponement(Message):
    """Nodes that a command could not remove, and for how many seconds no other command may remove them."""

    claims: list[str]
    seconds: float
    refused: str = ""
    """Who refused the command, and why, in a clause; empty if it failed."""
    command: str = ""
    """The command that could not remove them: another one may have taken its nodes meanwhile. May be empty."""
    undone: str = ""
    """Why the command was undone, in a clause; empty if only some of its nodes stay, or if it was refused."""
