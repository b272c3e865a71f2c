"""What crosses the wire between workflows, activities and operators: one model a message.

Models only ever gain optional fields: histories recorded by an older version must decode for ever. Nothing here may
carry a secret; user data stays in the launch template, named but never quoted.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from tenon.apis.reasons import Reason
from tenon.kube.offerings import OfferingKey


class Message(BaseModel):
    """Base of every message: immutable, and deaf to fields a newer version added."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class ActivityName(StrEnum):
    """Activities by the name that the Temporal UI shows: they read like a runbook."""

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
    """The closed set of failures that activities raise as typed, non-retryable errors."""

    INSUFFICIENT_CAPACITY = Reason.INSUFFICIENT_CAPACITY.camel_case
    NODECLASS_NOT_READY = "NodeClassNotReady"
    CLAIM_GONE = "NodeClaimGone"
    INVALID = "InvalidObject"
    NOT_MANAGED = "NodeClaimNotManaged"
    """The NodeClaim is another controller's."""


class ClaimRef(Message):
    """Which NodeClaim: the name may be used again after a deletion, the UID never."""

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
        """The same as a value that can be compared and sorted."""
        return OfferingKey(self.capacity_type, self.instance_type, self.zone)


# --- launch ---


class FleetOverride(Message):
    """One row of a fleet request: this type in this subnet."""

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
    """NodeClaims of one batch that ask for the same, and are launched by one request: the place of one of them."""

    id: str
    ordinal: int
    size: int


class LaunchRequest(Message):
    """The exact EC2 Fleet request of one launch attempt, recorded before it is sent so that a retry repeats it."""

    client_token: str
    capacity_type: str
    templates: list[FleetTemplate]
    tags: dict[str, str]
    context: str = ""
    made_from: dict[str, str] = {}
    """What the NodeClaim will say of the EC2NodeClass that the request was made from: it may be edited meanwhile."""
    group: LaunchGroup | None = None
    """The claim is launched with its group, by this request with the group's size, token and tags. A worker that does
    not know groups sends the request as it stands, for the claim alone."""


class PrepareLaunchInput(Message):
    """Asks for the fleet request of a claim's launch attempt (attempts count from 1)."""

    claim: ClaimRef
    attempt: int = 1


class LaunchWait(Message):
    """A launch that did not come about and is tried again: the claim is kept."""

    reason: str
    message: str
    answered: bool = True
    """EC2 refused the launch; false when it was too busy, or did not answer at all."""
    held: bool = False
    """The launch was not tried, because EC2 refuses what its NodePool asks for."""
    not_before: datetime | None = None
    """The earliest instant of the next try."""
    unsettled: bool = False
    """An instance may have been bought all the same: only the same request, with its token, may be sent again."""


class PrepareLaunchResult(Message):
    """What the claim asks for; without ``request`` there is nothing to launch (launched before, leaving, refused)."""

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
    """Dollars an hour."""
    private_dns_name: str = ""
    launched_at: datetime | None = None


class LaunchResult(Message):
    """Either an instance, or why there is none; ``unavailable`` offerings were refused for want of capacity."""

    instance: Instance | None = None
    unavailable: list[OfferingRef] = Field(default_factory=list)
    reason: str = ""
    message: str = ""
    waits: LaunchWait | None = None


# --- register, initialize, bind ---


class NodeInput(Message):
    """A step on the node of a claim. ``node_name`` is a hint; the provider ID decides."""

    claim: ClaimRef
    provider_id: str = ""
    node_name: str = ""


class RegisterResult(Message):
    """``node_name`` is set once the node is registered; ``reason`` says what is awaited otherwise."""

    node_name: str = ""
    reason: str = ""
    message: str = ""


class InitializeResult(Message):
    """Whether the node is initialized; else the reason (NodeNotReady, StartupTaintsExist ...)."""

    initialized: bool = False
    reason: str = ""
    message: str = ""


class BindResult(Message):
    """How many planned pods were bound here; the others were already placed, gone, or left to kube-scheduler."""

    bound: int = 0
    planned: int = 0
    left: int = 0
    running: int | None = None
    """All pods on the node that would need another place if it left, also those that it was not bought for."""


# --- cordon, drain, terminate ---


class CordonInput(NodeInput):
    """Marks claim and node for deletion. ``only_if_empty`` gives up, and undoes its taint, when pods are there."""

    reason: str = ""
    only_if_empty: bool = False
    termination_timestamp: datetime | None = None
    """An instant at which draining becomes forceful, earlier than the claim's own grace period would make it."""


class CordonResult(Message):
    """``cordoned`` is false only when ``only_if_empty`` found pods. ``force_at``: when draining becomes forceful."""

    cordoned: bool = True
    node_name: str = ""
    pods: int = 0
    force_at: datetime | None = None
    claim_exists: bool = True
    node_exists: bool = True


class DrainInput(NodeInput):
    """Evicts the node's pods until none is left or ``budget_seconds`` have passed; ``force`` deletes at once."""

    force_at: datetime | None = None
    force: bool = False
    budget_seconds: float = 60.0
    pool: str = ""
    instance_gone: bool = False
    """The machine is gone: nothing runs there any more that could be asked to end."""
    reason: str = ""
    """Why the node leaves."""


class DrainResult(Message):
    """``drained``, or which pods are awaited and why, at most ten sentences."""

    drained: bool = False
    evicted: int = 0
    remaining: int = 0
    blocked: list[str] = Field(default_factory=list)
    volumes_attached: int = 0
    next_force_at: datetime | None = None
    """When the next of the pods that are left may be deleted without asking."""


class DetachInput(NodeInput):
    """Waits for volume attachments of drained pods; skipped after ``force_at``."""

    force_at: datetime | None = None
    budget_seconds: float = 60.0


class DetachResult(Message):
    """Whether the volumes are gone; else how many are attached."""

    detached: bool = False
    attached: int = 0


class TerminateInput(Message):
    """Ends the instance of a claim; with no id, whatever instance carries the claim's tag."""

    claim: ClaimRef
    instance_id: str = ""
    zone: str = ""
    search_until: datetime | None = None
    """With no id: an instance may still appear until then, so finding none does not end the search."""
    shown: bool = False
    """EC2 has described the instance: when it knows nothing of it now, it is gone, and not only late to show it."""


class TerminateResult(Message):
    """Whether EC2 says the instance is gone, and its last state."""

    terminated: bool = False
    state: str = ""


class ReleaseInput(NodeInput):
    """Removes the finalizers of node and claim, as the last act of a life."""

    pool: str = ""
    capacity_type: str = ""
    zone: str = ""
    reason: str = ""
    created_at: datetime | None = None
    deletion_started_at: datetime | None = None
    held_by: list[str] = Field(default_factory=list)
    """In the answer: the finalizers of others that keep the Node or the NodeClaim, each in a sentence."""


# --- observation ---


class ClaimView(Message):
    """What a workflow must know of its NodeClaim; ``exists`` is false when it, or this UID, is gone."""

    exists: bool = False
    deleting: bool = False
    pool: str = ""
    node_class: str = ""
    created_at: datetime | None = None
    expire_after_seconds: float | None = None
    termination_grace_seconds: float | None = None
    keep_until: datetime | None = None
    instance: Instance | None = None
    """Known when the claim was launched before: from its provider ID and EC2."""
    node_name: str = ""
    registered: bool = False
    initialized: bool = False
    planned_pods: int = 0
    """How many pods the claim was bought for."""
    explanation: list[str] = Field(default_factory=list)
    """Why the claim was bought, in lines."""
    initialization_timeout_seconds: float | None = None
    """How long a registered node may take to become initialized; None: for ever, as Karpenter has it."""


# --- signals and updates ---


class Poke(Message):
    """Look again: something about this node changed. Level-triggered; lost or doubled pokes are harmless."""

    node_name: str = ""
    claim_deleting: bool = False
    node_deleting: bool = False
    node_ready: bool = False
    reason: str = ""
    instance_gone: bool = False
    """EC2 knows the instance no more, or has ended it without being asked by this life."""
    not_managed: bool = False
    """The NodeClaim is another controller's: the workflow ends and leaves everything as it is."""
    disrupted: bool = False
    """Node or NodeClaim has the marks of a disruption command, although neither is being deleted."""


class Disrupt(Message):
    """Asks a node to leave. With ``not_before`` it waits until then and goes only if still empty when it must be."""

    command: str
    reason: str
    since: datetime | None = None
    not_before: datetime | None = None
    only_if_empty: bool = False


class DisruptAnswer(Message):
    """Whether a node takes the command; ``why`` explains a refusal."""

    accepted: bool
    why: str = ""


class Keep(Message):
    """An operator's wish that a node live at least until an instant."""

    until: datetime


class KeepInput(Message):
    """Writes an operator's wish on the claim, so that it survives the workflow."""

    claim: ClaimRef
    until: datetime


# --- provisioning ---


class UnavailableOffering(Message):
    """An offering that was refused for want of capacity, and until when it is avoided."""

    offering: OfferingRef
    until: datetime


class RefusedTypes(Message):
    """Instance types that EC2 has no capacity for, in one zone, and until when they are avoided.

    No zone, and a type without a name, stand for all of the capacity type.
    """

    capacity_type: str
    zone: str
    instance_types: list[str]
    until: datetime


class LaunchBreaker(Message):
    """A NodePool whose launches EC2 refuses: they are held back, but for one now and then that probes."""

    pool: str
    reason: str
    message: str
    failures: int = 1
    """Refused probes in a row, the refusal that opened the breaker included."""
    opened_at: datetime
    next_probe_at: datetime
    outage: bool = False
    """EC2 does not answer at all: no claim is given up for it."""


class LaunchReport(Message):
    """What one io process, or all of them, know of EC2's refusals."""

    refused: list[RefusedTypes] = Field(default_factory=list)
    breakers: list[LaunchBreaker] = Field(default_factory=list)
    closed: list[str] = Field(default_factory=list)
    """NodePools whose launches succeed again."""


class AwaitBatchInput(Message):
    """Waits for pending pods that no earlier plan covers, then for the batch window to close."""

    cluster: str
    idle_seconds: float = 1.0
    """As `max_seconds`, read by earlier versions only: the window is the planner's own setting now."""
    max_seconds: float = 10.0
    wait_seconds: float = 600.0
    last_plan: PlanResult | None = None
    """Sent by earlier versions only: it names every NodeClaim of a plan, and no planner reads it."""
    breakers: list[LaunchBreaker] = Field(default_factory=list)


class BatchSummary(Message):
    """How many provisionable pods the window collected, or pods of buffers where only these want a plan; none when the
    wait ended quietly.
    """

    pods: int = 0
    opened_at: datetime | None = None


class PlanInput(Message):
    """Asks for a plan of batch ``batch``; the batch number never repeats, so that a retry finds its own claims."""

    cluster: str
    batch: int
    unavailable: list[UnavailableOffering] = Field(default_factory=list)
    """Sent by earlier versions only, as `last_plan`."""
    last_plan: PlanResult | None = None
    """As in `AwaitBatchInput`."""
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
    """NodeClaims that the API server did not take."""
    unreached: int = 0
    """Pods that the next batch must have, for the time of this plan was over before their turn."""
    nominated: list[str] = Field(default_factory=list)
    """UIDs of pods that a plan has already answered."""
    price: float = 0.0
    digest: str = ""
    solve_seconds: float = 0.0


# --- disruption ---


class LedgerEntry(Message):
    """One node on its way out by a command that has not ended."""

    command: str
    reason: str
    pool: str
    until: datetime
    due: datetime | None = None
    """When the node was to leave."""


class AwaitDisruptionInput(Message):
    """Waits until some node may be disrupted within its budgets."""

    cluster: str
    wait_seconds: float = 600.0
    ledger: dict[str, LedgerEntry] = Field(default_factory=dict)
    """Claim name -> its open command."""


class Candidate(Message):
    """One node that a command takes away."""

    claim: str
    uid: str
    pool: str
    since: datetime
    """Since when the command's reason holds."""
    due: datetime
    """When the node leaves, if the reason still holds."""


class DisruptionCommand(Message):
    """Nodes to take away together, and why."""

    id: str
    reason: str
    candidates: list[Candidate]
    only_if_empty: bool | None = None
    """Each node stays if a pod is on it once it is tainted. None in messages of earlier versions, which knew only the
    reason Empty and meant it."""


class DisruptionDecision(Message):
    """Commands to carry out now; none when the wait ended quietly. ``gone``: ledger entries that are settled."""

    commands: list[DisruptionCommand] = Field(default_factory=list)
    gone: list[str] = Field(default_factory=list)


class DisruptInput(Message):
    """Carries out a command: asks each candidate's workflow to leave."""

    cluster: str
    command: DisruptionCommand


class DisruptResult(Message):
    """Claim names by their answer."""

    accepted: list[str] = Field(default_factory=list)
    refused: dict[str, str] = Field(default_factory=dict)


# --- node classes ---


class NodeClassInput(Message):
    """Resolve subnets, security groups, images and profile of a node class, and write its status."""

    cluster: str
    name: str


class NodeClassResult(Message):
    """``exists`` is false once the class is gone for good; ``deleting`` while claims still hold it.

    ``refresh_seconds``: when a ready class is to be resolved again; None is the workflow's own choice.
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
