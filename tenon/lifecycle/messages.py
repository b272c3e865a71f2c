"""Messages between workflows, activities and operators, one model each.

Only add optional fields: histories recorded by older versions must always decode. Never put a secret in a message; user
data stays in the launch template, which messages refer to by name.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from tenon.apis.reasons import Reason
from tenon.kube.offerings import OfferingKey


class Message(BaseModel):
    """Base of all messages. Instances are immutable, and decoding ignores fields that a newer version added."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class ActivityName(StrEnum):
    """Activity types as the Temporal UI shows them, so they read like a runbook."""

    PREPARE_LAUNCH = "prepare launch"
    LAUNCH = "launch instance"
    REGISTER = "register node"
    INITIALIZE = "initialize node"
    BIND = "bind pods"
    CORDON = "cordon node"
    DRAIN = "drain node"
    DETACH_VOLUMES = "await volume detachment"
    TERMINATE = "terminate instance"
    RELEASE = "release node"
    KEEP = "record keep"
    WITHDRAW = "remove disruption taint"
    AWAIT_BATCH = "await pending pods"
    PLAN = "plan batch"
    AWAIT_DISRUPTION = "await disruption candidates"
    DISRUPT = "disrupt nodes"
    RESOLVE_NODECLASS = "resolve node class"


class ErrorType(StrEnum):
    """All types of non-retryable errors that activities raise."""

    INSUFFICIENT_CAPACITY = Reason.INSUFFICIENT_CAPACITY.camel_case
    NODECLASS_NOT_READY = "NodeClassNotReady"
    CLAIM_GONE = "NodeClaimGone"
    INVALID = "InvalidObject"
    NOT_MANAGED = "NodeClaimNotManaged"
    """The NodeClaim belongs to another controller."""


class ClaimRef(Message):
    """Identifies a NodeClaim in messages. A name may be reused after a deletion, a UID never is."""

    cluster: str
    name: str
    uid: str


class OfferingRef(Message):
    """One way to buy an instance type."""

    capacity_type: str
    instance_type: str
    zone: str

    @property
    def key(self) -> OfferingKey:
        """The offering as a value that can be compared and sorted."""
        return OfferingKey(self.capacity_type, self.instance_type, self.zone)


# --- launch ---


class FleetOverride(Message):
    """One override of a fleet request: an instance type in a subnet."""

    instance_type: str
    zone: str
    subnet_id: str
    price: float
    priority: float | None = None


class FleetTemplate(Message):
    """A launch template by name (always its latest version) and the overrides that use it."""

    name: str
    image_id: str
    overrides: list[FleetOverride]


class LaunchGroup(Message):
    """A claim's place in a group of NodeClaims of one batch that request the same and launch with one fleet request."""

    id: str
    ordinal: int
    size: int


class LaunchRequest(Message):
    """The exact EC2 Fleet request of one launch attempt.

    It is recorded before it is sent, so that a retry repeats it.
    """

    client_token: str
    capacity_type: str
    templates: list[FleetTemplate]
    tags: dict[str, str]
    context: str = ""
    made_from: dict[str, str] = {}
    """The NodeClaim's annotations about the EC2NodeClass that the request was made from. The class may change later."""
    group: LaunchGroup | None = None
    """The launch group of the claim. The group launches with this request, but with the group's size, token and tags.

    A worker that does not know groups sends the request as it is, for this claim alone.
    """


class PrepareLaunchInput(Message):
    """Asks for the fleet request of a launch attempt. Attempts count from 1."""

    claim: ClaimRef
    attempt: int = 1


class LaunchWait(Message):
    """A launch that failed and is retried; the claim stays."""

    reason: str
    message: str
    answered: bool = True
    """True if EC2 refused the launch; false if EC2 was too busy or did not answer."""
    held: bool = False
    """True if the launch was not tried, because EC2 refuses what the NodePool asks for."""
    not_before: datetime | None = None
    """The earliest time of the next try."""
    unsettled: bool = False
    """True if the request may have bought an instance anyway.

    Then only the same request, with its token, may be sent again.
    """


class PrepareLaunchResult(Message):
    """What the claim asks for.

    Without ``request`` there is nothing to launch: already launched, leaving, or refused.
    """

    view: ClaimView
    request: LaunchRequest | None = None
    reason: str = ""
    message: str = ""
    waits: LaunchWait | None = None


class LaunchInput(Message):
    """Sends a recorded request."""

    claim: ClaimRef
    request: LaunchRequest


class Instance(Message):
    """A launched EC2 instance."""

    id: str
    provider_id: str
    instance_type: str
    zone: str
    capacity_type: str
    image_id: str
    price: float
    """Dollars per hour."""
    private_dns_name: str = ""
    launched_at: datetime | None = None


class LaunchResult(Message):
    """Either the instance, or the reason why there is none. ``unavailable`` lists the offerings without capacity."""

    instance: Instance | None = None
    unavailable: list[OfferingRef] = Field(default_factory=list)
    reason: str = ""
    message: str = ""
    waits: LaunchWait | None = None


# --- register, initialize, bind ---


class NodeInput(Message):
    """A step on the node of a claim. ``provider_id`` identifies the node; ``node_name`` is only a hint."""

    claim: ClaimRef
    provider_id: str = ""
    node_name: str = ""


class RegisterResult(Message):
    """``node_name`` is set if the node is registered. Otherwise ``reason`` and ``message`` say what it waits for."""

    node_name: str = ""
    reason: str = ""
    message: str = ""


class InitializeResult(Message):
    """Whether the node is initialized. If not, ``reason`` says why (NodeNotReady, StartupTaintsExist ...)."""

    initialized: bool = False
    reason: str = ""
    message: str = ""


class BindResult(Message):
    """How many planned pods were bound here.

    The others already had a node, were gone, or were left to kube-scheduler.
    """

    bound: int = 0
    planned: int = 0
    left: int = 0
    running: int | None = None
    """All pods on the node that would need another node if it left, including those it was not bought for."""


# --- cordon, drain, terminate ---


class CordonInput(NodeInput):
    """Cordons the claim and its node. With ``only_if_empty``, gives up and removes the taint if the node has pods."""

    reason: str = ""
    only_if_empty: bool = False
    termination_timestamp: datetime | None = None
    """When the drain becomes forced, if that is before the end of the claim's own grace period."""


class CordonResult(Message):
    """``cordoned`` is false only if ``only_if_empty`` found pods. ``force_at`` is when the drain becomes forced."""

    cordoned: bool = True
    node_name: str = ""
    pods: int = 0
    force_at: datetime | None = None
    claim_exists: bool = True
    node_exists: bool = True


class DrainInput(NodeInput):
    """Evicts the node's pods until all are gone or ``budget_seconds`` have passed. ``force`` deletes them at once."""

    force_at: datetime | None = None
    force: bool = False
    budget_seconds: float = 60.0
    pool: str = ""
    instance_gone: bool = False
    """The instance is gone, so no container runs that could shut down gracefully."""
    reason: str = ""
    """Why the node leaves."""


class DrainResult(Message):
    """Whether the node is drained.

    If not, ``blocked`` says which pods it waits for and why, in at most ten sentences.
    """

    drained: bool = False
    evicted: int = 0
    remaining: int = 0
    blocked: list[str] = Field(default_factory=list)
    volumes_attached: int = 0
    next_force_at: datetime | None = None
    """When the next remaining pod may be deleted without eviction."""


class DetachInput(NodeInput):
    """Waits until the volumes of drained pods are detached. Does not wait past ``force_at``."""

    force_at: datetime | None = None
    budget_seconds: float = 60.0


class DetachResult(Message):
    """Whether all volumes are detached; if not, ``attached`` says how many are left."""

    detached: bool = False
    attached: int = 0


class TerminateInput(Message):
    """Terminates the instance of a claim. Without an ID, terminates any instance with the claim's tag."""

    claim: ClaimRef
    instance_id: str = ""
    zone: str = ""
    search_until: datetime | None = None
    """Without an ID, an instance may still appear until this time, so the search goes on if it finds none."""
    shown: bool = False
    """EC2 has described the instance before. If EC2 does not know it now, it is gone, not just slow to appear."""


class TerminateResult(Message):
    """Whether EC2 reports the instance as gone, and its last state."""

    terminated: bool = False
    state: str = ""


class ReleaseInput(NodeInput):
    """Removes the finalizers of the Node and the NodeClaim, as the last step of the workflow."""

    pool: str = ""
    capacity_type: str = ""
    zone: str = ""
    reason: str = ""
    created_at: datetime | None = None
    deletion_started_at: datetime | None = None
    held_by: list[str] = Field(default_factory=list)
    """In the result: one sentence for each object that other controllers' finalizers keep."""


# --- observation ---


class ClaimView(Message):
    """What a workflow needs to know about its NodeClaim. The manifest would fill the history.

    ``exists`` is false if the claim, or this UID of it, is gone.
    """

    exists: bool = False
    deleting: bool = False
    pool: str = ""
    node_class: str = ""
    created_at: datetime | None = None
    expire_after_seconds: float | None = None
    termination_grace_seconds: float | None = None
    keep_until: datetime | None = None
    instance: Instance | None = None
    """Set if the claim was launched before: read from its provider ID and EC2."""
    node_name: str = ""
    registered: bool = False
    initialized: bool = False
    planned_pods: int = 0
    """How many pods the claim was bought for."""
    explanation: list[str] = Field(default_factory=list)
    """Why the claim was bought, in lines."""
    initialization_timeout_seconds: float | None = None
    """How long a registered node may take to initialize; None for no limit, as in Karpenter."""


# --- signals and updates ---


class Poke(Message):
    """Tells the workflow that its node changed. Level-triggered, so lost or duplicate pokes are harmless."""

    node_name: str = ""
    claim_deleting: bool = False
    node_deleting: bool = False
    node_ready: bool = False
    reason: str = ""
    instance_gone: bool = False
    """EC2 no longer knows the instance, or ended it without a request from this workflow."""
    not_managed: bool = False
    """The NodeClaim belongs to another controller: the workflow ends and changes nothing."""
    disrupted: bool = False
    """The Node or NodeClaim has the marks of a disruption command, although neither is being deleted."""


class Disrupt(Message):
    """Asks a node to leave.

    With ``not_before``, the node waits until then. With ``only_if_empty``, it stays if it has pods at that time.
    """

    command: str
    reason: str
    since: datetime | None = None
    not_before: datetime | None = None
    only_if_empty: bool = False


class DisruptAnswer(Message):
    """Whether the node accepts the command. ``why`` explains a refusal."""

    accepted: bool
    why: str = ""


class Keep(Message):
    """An operator's request to keep a node at least until a given time."""

    until: datetime


class KeepInput(Message):
    """Writes an operator's keep request to the claim, so that it outlives the workflow."""

    claim: ClaimRef
    until: datetime


# --- provisioning ---


class UnavailableOffering(Message):
    """An offering without capacity, and until when to avoid it."""

    offering: OfferingRef
    until: datetime


class RefusedTypes(Message):
    """Instance types for which EC2 has no capacity in a zone, and until when to avoid them.

    An empty zone together with an empty type name stands for the whole capacity type.
    """

    capacity_type: str
    zone: str
    instance_types: list[str]
    until: datetime


class LaunchBreaker(Message):
    """A NodePool whose launches EC2 refuses. Its launches wait, except for an occasional probe."""

    pool: str
    reason: str
    message: str
    failures: int = 1
    """Refused probes in a row, including the refusal that opened the breaker."""
    opened_at: datetime
    next_probe_at: datetime
    outage: bool = False
    """EC2 does not answer at all, so no claim is given up."""


class LaunchReport(Message):
    """What one io process, or all of them, know about EC2's refusals."""

    refused: list[RefusedTypes] = Field(default_factory=list)
    breakers: list[LaunchBreaker] = Field(default_factory=list)
    closed: list[str] = Field(default_factory=list)
    """NodePools whose launches succeed again."""


class AwaitBatchInput(Message):
    """Waits for pending pods that no earlier plan covers, then for the batch window to close."""

    cluster: str
    idle_seconds: float = 1.0
    """Only earlier versions read this and `max_seconds`: the planner now has its own setting for the window."""
    max_seconds: float = 10.0
    wait_seconds: float = 600.0
    last_plan: PlanResult | None = None
    """Only earlier versions send it: it names every NodeClaim of a plan, and no planner reads it."""
    breakers: list[LaunchBreaker] = Field(default_factory=list)


class BatchSummary(Message):
    """How many provisionable pods the window collected, or how many buffer pods if only those need a plan.

    ``pods`` is 0 if the wait ended without any.
    """

    pods: int = 0
    opened_at: datetime | None = None


class PlanInput(Message):
    """Asks for a plan of a batch. A batch number is never reused, so that a retry finds its own claims."""

    cluster: str
    batch: int
    unavailable: list[UnavailableOffering] = Field(default_factory=list)
    """Only earlier versions send it, like `last_plan`."""
    last_plan: PlanResult | None = None
    """See `AwaitBatchInput.last_plan`."""
    refused: list[RefusedTypes] = Field(default_factory=list)
    breakers: list[LaunchBreaker] = Field(default_factory=list)


class PlanResult(Message):
    """What a plan did, in figures and names."""

    batch: int = 0
    claims: list[str] = Field(default_factory=list)
    pods: int = 0
    placed_on_existing: int = 0
    unschedulable: int = 0
    refused: int = 0
    """How many NodeClaims the API server rejected."""
    unreached: int = 0
    """How many pods the next batch must include, because this plan ran out of time before their turn."""
    nominated: list[str] = Field(default_factory=list)
    """UIDs of pods for which a plan has already decided."""
    price: float = 0.0
    digest: str = ""
    solve_seconds: float = 0.0


# --- disruption ---


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


class Candidate(Message):
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
    candidates: list[Candidate]
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


# --- node classes ---


class NodeClassInput(Message):
    """Resolves subnets, security groups, images and instance profile of a node class, and writes its status."""

    cluster: str
    name: str


class NodeClassResult(Message):
    """``exists`` is false once the class is gone; ``deleting`` is true while claims still hold it.

    ``refresh_seconds``: when to resolve a ready class again; None lets the workflow choose.
    """

    exists: bool = True
    deleting: bool = False
    ready: bool = False
    generation: int = 0
    message: str = ""
    refresh_seconds: float | None = None


PrepareLaunchResult.model_rebuild()
AwaitBatchInput.model_rebuild()
PlanInput.model_rebuild()
