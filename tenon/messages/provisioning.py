"""The messages of the provisioner's workflow: batches, plans, and what EC2 refuses."""

from datetime import datetime

from pydantic import Field

from tenon.kube.offerings import Scope
from tenon.messages.base import POLL_SECONDS, Message
from tenon.messages.offerings import OfferingRef


class UnavailableTypes(Message):
    """The `OfferingKey` of several instance types for which EC2 has no capacity, and until when to avoid them."""

    capacity_type: str
    zone: str
    scope: Scope = ""
    scope_name: str = ""
    instance_types: list[str]
    until: datetime
    refused_at: datetime | None = None
    """When EC2 last refused them; None if it takes their instances back."""
    refusals: int = 0
    """How often in a row (`tenon.ec2.refusals.backoff`)."""


class LaunchBreaker(Message):
    """Launches that EC2 refuses. They wait, except for an occasional probe.

    These are the launches of a NodePool, of an EC2NodeClass, or of the account if neither is named. Launches of other
    instance types do not wait, if EC2's refusals were about the requests of some types.
    """

    pool: str = ""
    reason: str
    message: str
    failures: int = 1
    """Refused probes in a row, including the refusal that opened the breaker."""
    opened_at: datetime
    next_probe_at: datetime
    outage: bool = False
    """EC2 does not answer at all, so no claim is given up."""
    boots: bool = False
    """EC2 accepts the launches, but the instances end before their Nodes join."""
    ended: list[str] = Field(default_factory=list)
    """The last of these instances, so that what several processes saw adds up."""
    kinds: list[str] = Field(default_factory=list)
    """Their images and instance types, or their zones, sorted."""
    instance_types: list[str] = Field(default_factory=list)
    """The instance types of the refused requests, sorted; empty if no launch can succeed."""
    node_class: str = ""
    """The key of the EC2NodeClass, if EC2's refusals are about it. Launches of all its NodePools wait. A NodePool
    under a rollout has a key for each of its versions, so that a version that EC2 refuses holds back no other one."""
    refused_at: datetime | None = None
    """When EC2 last refused a launch or ended an instance. NodeClaims that are older do not keep their pods."""


class ShortageWait(Message):
    """Pods that wait for a cheaper node of a NodePool, because EC2 refuses what they would usually get."""

    pool: str
    pods: int = 1
    pod: str = ""
    """One of them, as ``namespace/name``."""
    instance_type: str
    """The cheapest that EC2 still sells."""
    price: float
    usual_type: str
    """The cheapest that EC2 refused."""
    usual_count: int = 1
    """How many nodes of it would hold the pods."""
    usual_price: float
    """What these cost together."""
    until: datetime
    """When Tenon asks EC2 for it again."""


class UnlaunchedClaims(Message):
    """NodeClaims of one batch that were deleted without an instance, for the same reason."""

    batch: int
    reason: str
    """That of the deletion, such as ``insufficient_capacity``."""
    claims: list[str]


class LaunchReport(Message):
    """What one io process, or all of them, know about EC2's refusals."""

    unavailable: list[UnavailableTypes] = Field(default_factory=list)
    breakers: list[LaunchBreaker] = Field(default_factory=list)
    closed: list[str] = Field(default_factory=list)
    """NodePools whose launches succeed again, and the keys of EC2NodeClasses (`tenon.node.launch_breaker.key_of`)."""
    waits: list[ShortageWait] = Field(default_factory=list)
    """Only the provisioner knows them."""
    unlaunched: list[UnlaunchedClaims] = Field(default_factory=list)
    """NodeClaims that got no instance, in the report of an io process. Each is reported once, or again if it may be
    that the workflow did not receive it."""
    kept_by: str = ""
    """The first run of the provisioner's workflow, in its own answers. Another one was started without the memory of
    the one before."""


class PurchasePause(Message):
    """Pods that nodes were bought for and did not get, and until when no more nodes are bought for them."""

    group: str
    """What the pods have in common: `tenon.provisioning.purchase_pauses.group_of`."""
    supply: str = ""
    """The NodePools and EC2NodeClasses when the first of the nodes was counted. The pause ends when they change."""
    nodes: int = 0
    """How many nodes became ready and stayed without these pods."""
    claims: list[str] = Field(default_factory=list)
    """Those of their NodeClaims that may still exist, so that none counts twice."""
    pool: str = ""
    """The NodePool of the last of them."""
    batch: int = 0
    """The newest batch that one of them was planned in."""
    pauses: int = 0
    """How many pauses there were, including the current one."""
    until: datetime | None = None
    """The end of the current or the last pause. None if there was none, or if a changed NodePool has ended it."""
    pods: list[str] = Field(default_factory=list)
    """The first few of the pods that wait, as namespace/name."""
    waiting: int = 0
    """How many of the pods wait."""
    refusal: str = ""
    """Why kube-scheduler does not place one of them, in its own words, shortened."""


class PendingClause(Message):
    """Why pods get no node of a NodePool."""

    pool: str = ""
    """The NodePool; empty if it is about none, or about several that have no clause of their own."""
    kind: str = ""
    """The `ObstacleKind` of what keeps the pods off; empty if the clause counts other NodePools."""
    waits: bool = False
    """Whether the NodePool would take them later by itself."""
    text: str
    """The clause with the name of the NodePool."""


class PendingPods(Message):
    """Pods without a node that wait for the same."""

    why: str
    """What they wait for, or why no node is bought for them, in a clause."""
    clauses: list[PendingClause] = Field(default_factory=list)
    """Why no node is bought for them, as `why`, by NodePool; empty for pods with a place."""
    pods: list[str]
    """The first of them, as ``namespace/name``."""
    count: int
    has_place: bool = False
    """Whether a node was bought for them, or has room."""
    claim: str = ""
    """The NodeClaim that was created for them; empty if an existing node has room, or nothing fits."""


class PlannedPrice(Message):
    """A NodeClaim that a batch created, and what it costs as planned."""

    name: str
    price: float | None = None
    """Dollars an hour; None if an attempt planned it whose answer was lost."""


class BatchOutcome(Message):
    """What became of one batch, for a line of the page."""

    at: datetime
    batch: int
    pods: int
    bought: bool = False
    """Whether NodeClaims were created."""
    claims: list[PlannedPrice] = Field(default_factory=list)
    """The first of the NodeClaims."""
    claim_count: int = 0
    """How many NodeClaims were created."""
    price: float = 0.0
    """What all of them cost an hour as planned, in dollars."""
    unlaunched: list[UnlaunchedClaims] = Field(default_factory=list)
    """Those of the NodeClaims that got no instance."""
    placed_on_existing: int = 0
    unschedulable: int = 0
    waiting: int = 0
    """How many pods wait for cheaper capacity."""
    rejected: int = 0
    """How many NodeClaims the API server rejected."""
    unreached: int = 0


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
    claim_prices: list[float] = Field(default_factory=list)
    """What each of `claims` costs an hour as planned, in dollars."""
    digest: str = ""
    solve_seconds: float = 0.0
    pauses: list[PurchasePause] = Field(default_factory=list)
    """Pods that nodes were bought for and did not get. The workflow keeps them for the next process that leads."""
    waits: list[ShortageWait] = Field(default_factory=list)
    """What pods wait for in a capacity shortage."""
    pending: list[PendingPods] = Field(default_factory=list)
    """The other pods without a node, also of earlier plans, in the first groups."""
    pending_left_out: int = 0
    """How many pods are in the groups that `pending` leaves out."""
    reopened: list[OfferingRef] = Field(default_factory=list)
    """Of the offerings that EC2 refused, those of which it has launched instances since."""
    over_quota: list[UnavailableTypes] = Field(default_factory=list)
    """The vCPU quotas that leave no room, if pods of the plan wait."""
    postponed: int = 0
    """How many planned nodes wait until EC2 has launched others of their NodePool."""
    planned_at: datetime | None = None
    """When the workflow got the result."""


class AwaitBatchInput(Message):
    """Waits for pending pods that no earlier plan covers, then for the batch window to close."""

    cluster: str
    wait_seconds: float = POLL_SECONDS
    breakers: list[LaunchBreaker] = Field(default_factory=list)
    pauses: list[PurchasePause] = Field(default_factory=list)
    """From the last answer of a leader, for a process that has just begun to lead."""


class CostPart(Message):
    """What a NodePool, or the pods of a namespace, cost."""

    name: str
    price: float
    """Dollars an hour."""


class ClusterCost(Message):
    """What the instances of NodePools cost an hour, in dollars, with the largest parts."""

    at: datetime
    """When the leader looked."""
    nodes: int
    others: int = 0
    """How many nodes Tenon did not launch, which no figure counts."""
    price: float
    lower_bound: float | None = None
    """What any nodes for the pods would cost at least; None if it is not known yet."""
    pools: list[CostPart] = Field(default_factory=list)
    more_pools: int = 0
    """How many NodePools are not named."""
    namespaces: list[CostPart] = Field(default_factory=list)
    more_namespaces: int = 0
    unused: float = 0.0
    """What no pod requests."""


class BatchSummary(Message):
    """How many provisionable pods the window collected, or how many buffer pods if only those need a plan.

    ``pods`` is 0 if the wait ended without any.
    """

    pods: int = 0
    opened_at: datetime | None = None
    pauses: list[PurchasePause] = Field(default_factory=list)
    """As in `PlanResult`."""
    cost: ClusterCost | None = None
    """What the cluster costs, for the page; None if the leader does not measure it."""


class PlanInput(Message):
    """Asks for a plan of a batch. A batch number is never reused, so that a retry finds its own claims."""

    cluster: str
    batch: int
    unavailable: list[UnavailableTypes] = Field(default_factory=list)
    breakers: list[LaunchBreaker] = Field(default_factory=list)
    pauses: list[PurchasePause] = Field(default_factory=list)
    """See `AwaitBatchInput.pauses`."""
