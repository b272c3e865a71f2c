"""The entries of the record, one model for each kind.

From release 0.1.0 on, only add optional fields, because an archive keeps lines of earlier releases. An entry never
holds a secret: it repeats what NodeClaims, events and timelines say. Texts are bounded, and so are lists: `MAX_LISTED`.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from tenon.kube.pool_reasons import NoPlace
from tenon.messages.explanation import Explanation

MAX_LISTED = 1000
"""The most pods, nodes or reasons that one list of an entry names. The counts next to it are complete."""

MAX_COST_ROWS = 500
"""The most rows of a `CostEntry`. What does not fit is added up by NodePool."""

Text = Annotated[str, StringConstraints(max_length=2000)]
"""A sentence. Who makes an entry shortens it with `tenon.sentences`."""


class EntryKind(StrEnum):
    """What an entry tells of."""

    PLAN = "plan"
    COMMAND = "command"
    COMMAND_END = "command-end"
    LAUNCH = "launch"
    REFUSAL = "refusal"
    REMOVAL = "removal"
    COST = "cost"
    TEARDOWN = "teardown"
    DISRUPTION = "disruption"


class _Part(BaseModel):
    """A part of an entry. Instances are immutable; reading ignores fields that a newer version added."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class _Entry(_Part):
    """What all entries have."""

    id: str
    """Identifies what happened. A retry that records it again uses the same ID, and readers keep one of them."""
    at: datetime
    """When it happened, in UTC."""
    cluster: str
    """The name of the cluster, as in CLUSTER_NAME."""
    workflow: str = ""
    """The ID of the workflow that did it."""
    run: str = ""
    """The ID of that workflow's run."""
    actor: str = ""
    """Who wanted it: a controller, a disruption command or a person."""


class RecordedPurchase(_Part):
    """A NodeClaim that a plan or a command creates. It is bought when EC2 launches it, which a `launch` entry says."""

    claim: str
    """The name of the NodeClaim."""
    pool: str
    """Its NodePool."""
    instance_type: str
    """The cheapest type that fits, by whose price the plan was made."""
    price: float
    """Dollars an hour of that type."""
    pods: list[str] = Field(default_factory=list)
    """The pods that it is created for, as ``namespace/name``."""
    pod_count: int = 0
    """How many pods it is created for."""
    why: Explanation = Explanation()
    """Why it is bought, and why this type, besides its pods and its price."""


class PlanEntry(_Entry):
    """A batch of pending pods was planned."""

    kind: Literal[EntryKind.PLAN] = EntryKind.PLAN
    """``plan``"""
    batch: int
    """The number of the batch, which is never used again."""
    inputs: str = ""
    """The digest of the inputs of the plan, by which they are kept; empty if they are not kept."""
    inputs_lacking: Text = ""
    """Why its inputs are not kept; empty if they are, or if no store is set."""
    decision: str = ""
    """The digest of the plan. Equal plans have equal digests."""
    pods: int
    """How many pods it was for."""
    on_existing: dict[str, list[str]] = Field(default_factory=dict)
    """By Node or NodeClaim that existed, the pods that it gets."""
    purchases: list[RecordedPurchase] = Field(default_factory=list)
    """The NodeClaims that it creates."""
    unschedulable: dict[str, NoPlace] = Field(default_factory=dict)
    """By pod, as ``namespace/name``, why it fits nowhere."""
    unschedulable_count: int = 0
    """How many pods fit nowhere."""
    purchase_count: int = 0
    """How many NodeClaims it creates."""
    placed_count: int = 0
    """How many pods the nodes that existed get."""
    price: float = 0.0
    """Dollars an hour of all purchases."""
    seconds: float = 0.0
    """How long the decision took."""


class CommandCandidate(_Part):
    """A node that a command removes or reboots."""

    claim: str
    """The name of its NodeClaim."""
    pool: str
    """Its NodePool."""
    node: str = ""
    """The name of the Node; empty if it has none yet."""
    price: float = 0.0
    """Dollars an hour; 0 if it is not known."""


class CommandEntry(_Entry):
    """A disruption command started."""

    kind: Literal[EntryKind.COMMAND] = EntryKind.COMMAND
    """``command``"""
    command: str
    """The ID of the command, which events and timelines of its nodes name."""
    reason: str
    """Such as ``Underutilized``, in the words of events."""
    decision: str = ""
    """delete, replace, terminate-first or reboot."""
    candidates: list[CommandCandidate]
    """The nodes."""
    replacements: list[RecordedPurchase] = Field(default_factory=list)
    """The NodeClaims that it is to create in their place. `command-end` says which ones it created."""
    pods: int = 0
    """How many pods it moves."""
    predicted: float = 0.0
    """Dollars an hour that it is to save: what leaves, minus the cheapest types of what comes."""
    why: Text = ""
    """Why these nodes, and which alternatives were rejected."""
    approve_until: datetime | None = None
    """Until when it waits for a person; absent if it does not wait."""


class CommandApproval(_Part):
    """How the wait of a command for a person ended."""

    answer: str
    """approved, refused, unanswered, stale or cancelled."""
    by: Text = ""
    """Who answered; empty if no one did."""
    reason: Text = ""
    """Why, in the words of who answered, or why no one had to."""
    at: datetime
    """When the wait ended."""
    seconds: float = 0.0
    """How long it waited."""


class CommandEndEntry(_Entry):
    """A disruption command ended."""

    kind: Literal[EntryKind.COMMAND_END] = EntryKind.COMMAND_END
    """``command-end``"""
    command: str
    """The ID of the command."""
    reason: str
    """As when it started."""
    accepted: list[str] = Field(default_factory=list)
    """The NodeClaims that leave."""
    refused: dict[str, Text] = Field(default_factory=dict)
    """By NodeClaim, why it stays."""
    replacements: list[str] = Field(default_factory=list)
    """The NodeClaims that replace the nodes, if it created or awaited any."""
    outcome: Text = ""
    """What became of the replacement of a node that left first; empty for other commands."""
    failure: Text = ""
    """Why the command was undone; empty if it was not."""
    predicted: float | None = None
    """Dollars an hour that it should save; None if prices are not known."""
    reached: float | None = None
    """Dollars an hour that it saves."""
    seconds: float = 0.0
    """How long it took."""
    approval: CommandApproval | None = None
    """Who approved or refused it; absent if it waited for no one."""


class RecordedNode(_Part):
    """Which node a launch or a removal is about."""

    claim: str
    """The name of its NodeClaim."""
    pool: str
    """Its NodePool; empty for a NodeClaim of its own."""
    node: str = ""
    """The name of the Node; empty as long as it has none, so also in entries of launches."""
    instance: str = ""
    """The ID of the EC2 instance."""
    instance_type: str = ""
    """The type of the instance."""
    zone: str = ""
    """The availability zone."""
    capacity_type: str = ""
    """spot, on-demand or reserved."""
    price: float = 0.0
    """Dollars an hour; 0 if it is not known."""


class LaunchEntry(_Entry):
    """EC2 launched an instance for a NodeClaim."""

    kind: Literal[EntryKind.LAUNCH] = EntryKind.LAUNCH
    """``launch``"""
    facts: RecordedNode
    """What was launched."""
    launched_at: datetime | None = None
    """When EC2 launched it."""
    image: str = ""
    """The ID of its machine image."""
    offered: int = 0
    """How many offerings the request named."""
    attempt: int = 1
    """The number of the attempt that succeeded."""
    why: Explanation = Explanation()
    """Why the NodeClaim was bought."""


class RefusalEntry(_Entry):
    """EC2, or the EC2NodeClass, refused a launch."""

    kind: Literal[EntryKind.REFUSAL] = EntryKind.REFUSAL
    """``refusal``"""
    claim: str
    """The name of the NodeClaim that was to launch."""
    pool: str
    """Its NodePool."""
    code: str
    """The error code of EC2, or the reason of the NodeClaim's condition Launched."""
    message: Text = ""
    """What EC2, or the check of the EC2NodeClass, says."""
    offerings: list[str] = Field(default_factory=list)
    """What was refused, as ``on-demand m5.large us-west-2a``, or the scope of the refusal."""
    offering_count: int = 0
    """How many offerings were refused."""
    attempt: int = 1
    """The number of the attempt that was refused."""


class BlockedBy(_Part):
    """What kept the drain of a node."""

    cause: str
    """A PodDisruptionBudget, an annotation or a finalizer of pods, or why an eviction was refused."""
    pods: list[str] = Field(default_factory=list)
    """The first pods that it kept, as ``namespace/name``."""
    pod_count: int = 0
    """The most pods that it kept at one time."""
    since: datetime
    """When it was noticed first."""
    seconds: float
    """How long it kept them in all."""


class RemovalEntry(_Entry):
    """A node's life ended, or that of a NodeClaim which never became a node."""

    kind: Literal[EntryKind.REMOVAL] = EntryKind.REMOVAL
    """``removal``"""
    facts: RecordedNode
    """What was removed."""
    reason: str
    """Such as ``Expired``, in the words of events."""
    detail: Text = ""
    """What exactly: the notice, the condition, or the words of who removed it."""
    created_at: datetime | None = None
    """When its NodeClaim was created."""
    launched_at: datetime | None = None
    """When EC2 launched its instance; None if there never was one."""
    asked_at: datetime | None = None
    """When it was asked to leave."""
    terminated_at: datetime | None = None
    """When EC2 accepted the termination of its instance, which costs nothing from then on."""
    stopped: Text = ""
    """When its instance was stopped, as ISO 8601 intervals joined by commas; the last one may have no end."""
    pods: int = 0
    """How many pods were evicted or deleted."""
    workloads: list[str] = Field(default_factory=list)
    """What these pods are of, by what their names have in common, such as ``shop/web-5d7c9``; the first 20."""
    cost: float = 0.0
    """Dollars that its instance cost from launch to termination, without its disks."""
    blocked_by: list[BlockedBy] = Field(default_factory=list)
    """What kept its drain, the longest first; empty if nothing did."""
    timeline: list[str] = Field(default_factory=list)
    """The last lines of its timeline, with their times."""

    @property
    def had_instance(self) -> bool:
        """Whether EC2 launched an instance. If not, no node was removed."""
        return self.launched_at is not None or bool(self.facts.instance)


class CostRow(_Part):
    """A part of what a NodePool cost in an interval."""

    pool: str
    """The NodePool."""
    of: str
    """What was paid for: pods, daemons, headroom, idle or starting."""
    namespace: str = ""
    """The namespace of the pods; ``(others)`` for those that have no row of their own."""
    workload: str = ""
    """The controller of the pods, as ``Kind/name``."""
    cost: float
    """Dollars in the interval."""


class CostEntry(_Entry):
    """What the pods of each workload requested of each NodePool in an interval that ended, in dollars."""

    kind: Literal[EntryKind.COST] = EntryKind.COST
    """``cost``"""
    since: datetime
    """The start of the interval. Its end is ``at``."""
    samples: int
    """How often the leader looked."""
    rows: list[CostRow] = Field(default_factory=list)
    """The parts, of which the cheapest are added up if there are more than 500."""
    cost: float = 0.0
    """Dollars of all rows."""
    lower_bound: float | None = None
    """Dollars an hour that any nodes for the pods would cost at least, at its end; absent if it is not known."""


class TeardownEntry(_Entry):
    """All that Tenon had bought and made for a cluster was ended."""

    kind: Literal[EntryKind.TEARDOWN] = EntryKind.TEARDOWN
    """``teardown``"""
    region: str = ""
    """The AWS region."""
    reason: Text = ""
    """Why, in the words of who asked."""
    ticket: Text = ""
    """Where the reason is written down."""
    ended: dict[str, Text] = Field(default_factory=dict)
    """What ended, as ``kind name``, and what it was."""
    counts: dict[str, int] = Field(default_factory=dict)
    """By kind, how many ended."""
    leftovers: dict[str, Text] = Field(default_factory=dict)
    """What stays, as ``kind name``, and why."""
    skipped: dict[str, Text] = Field(default_factory=dict)
    """By step, why it was skipped."""
    price: float = 0.0
    """Dollars an hour that the ended instances cost."""
    seconds: float = 0.0
    """How long it took."""


class DecidedCommand(_Part):
    """A command that disruption chose."""

    reason: str
    """Such as ``Underutilized``, in the words of events."""
    decision: str
    """delete, replace, terminate-first or reboot."""
    claims: list[str]
    """The NodeClaims that it removes or reboots."""
    bought: list[str] = Field(default_factory=list)
    """What it buys in their place, as ``m5.large of default``."""
    saving: float = 0.0
    """Dollars an hour that it is to save; negative if it costs more."""


class DisruptionEntry(_Entry):
    """Disruption chose commands, or refused to remove nodes that it would have removed otherwise."""

    kind: Literal[EntryKind.DISRUPTION] = EntryKind.DISRUPTION
    """``disruption``"""
    inputs: str = ""
    """The digest of the inputs of the decision, by which they are kept; empty if they are not kept."""
    inputs_lacking: Text = ""
    """Why its inputs are not kept; empty if they are, or if no store is set."""
    decision: str = ""
    """The digest of the decision. Equal decisions have equal digests."""
    commands: list[DecidedCommand] = Field(default_factory=list)
    """What it chose. Some may not have started: a check before the start finds what has changed since."""
    command_count: int = 0
    """How many commands it chose."""
    node_count: int = 0
    """How many nodes they remove or reboot."""
    must_go_count: int = 0
    """How many of these leave for another reason than to save money."""
    saving: float = 0.0
    """Dollars an hour that all commands are to save."""
    refused: dict[str, Text] = Field(default_factory=dict)
    """By NodeClaim, the rule that keeps its node."""
    refused_count: int = 0
    """How many nodes a rule keeps."""


Entry = Annotated[
    PlanEntry
    | CommandEntry
    | CommandEndEntry
    | LaunchEntry
    | RefusalEntry
    | RemovalEntry
    | CostEntry
    | TeardownEntry
    | DisruptionEntry,
    Field(discriminator="kind"),
]
