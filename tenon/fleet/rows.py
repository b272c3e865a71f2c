"""One row for each node: what it is, how full, what it costs, in which stage, and what keeps or removes it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tenon.apis import labels
from tenon.apis.warm import STOPPED
from tenon.ec2.types.instance_types import Prices
from tenon.fleet.disruption_state import DisruptionState, NodeDisruption, disruption_of, expiry_of
from tenon.fleet.stage import stage_of
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.records import NodeRecord, ObjectRecord, PodRecord
from tenon.kube.timestamps import from_epoch
from tenon.node.state import Stage
from tenon.resources import CPU, MEMORY, PODS, Resources, parse_resources, total

EKS_CAPACITY_TYPE = "eks.amazonaws.com/capacityType"
EKS_SPOT = "SPOT"
FARGATE = "eks.amazonaws.com/compute-type"


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A Node, a NodeClaim, or both."""

    node: str
    """The name of the Node; empty before it registered."""
    claim: str
    """The name of the NodeClaim; empty if Tenon did not launch the node."""
    pool: str
    instance_type: str
    zone: str
    capacity_type: str
    created: datetime | None
    stage: Stage
    ready: bool
    pods: int
    pod_limit: int
    cpu_requests: int
    """In millicores."""
    cpu: int
    memory_requests: int
    """In bytes."""
    memory: int
    price: float | None
    """In dollars an hour; None if it is not known."""
    disruption: DisruptionState
    why: str
    command: str = ""
    """The open disruption command that removes it."""
    replaces: str = ""
    """The open disruption command that it was created for."""
    instance: str = ""
    is_blocked: bool = False
    """The node's workflow says that it is blocked and needs attention, which only Temporal knows."""
    expires: datetime | None = None
    """When it expires; an operator who keeps it postpones that."""
    kept_until: datetime | None = None
    """Until when an operator keeps it; None if no one does now."""
    labels: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """Those of the Node, or of the NodeClaim before the Node registered."""
    is_workflow_only: bool = False
    """Kubernetes has no such NodeClaim any more: only its workflow is left, which `tenon node list` shows."""

    @property
    def name(self) -> str:
        """The name of the Node, or else of the NodeClaim."""
        return self.node or self.claim

    @property
    def is_counted(self) -> bool:
        """Whether sums count it: an instance of a NodeClaim. `tenon cost` and the workflows' pages count the same."""
        return bool(self.claim and self.instance and not self.is_workflow_only)

    @property
    def cpu_share(self) -> float:
        """Requests of CPU over what is allocatable."""
        return self.cpu_requests / self.cpu if self.cpu else 0.0

    @property
    def memory_share(self) -> float:
        """Requests of memory over what is allocatable."""
        return self.memory_requests / self.memory if self.memory else 0.0

    def age_seconds(self, now: datetime) -> float:
        """Return the age of the node; 0 if it is not known."""
        return max(0.0, (now - self.created).total_seconds()) if self.created is not None else 0.0


def node_row(
    claim: ClaimRecord | None,
    node: NodeRecord | None,
    pods: Collection[PodRecord],
    pool: ObjectRecord | None,
    prices: Prices,
    now: datetime,
    event: str = "",
) -> NodeRow:
    """Return the row of a NodeClaim, its Node, or both.

    Args:
        claim: the NodeClaim, if it exists.
        node: the Node, if it exists.
        pods: the pods on the Node.
        pool: the NodePool, if it exists.
        prices: of the region.
        now: the current time.
        event: the message of its last event DisruptionBlocked, if that is recent.
    """
    running_pods = [pod for pod in pods if not pod.terminal]
    requests = total(pod.pod.requests for pod in running_pods)
    allocatable = _allocatable(claim, node)
    labels_ = labels_of(claim, node)
    instance_type, zone = labels_.get(labels.INSTANCE_TYPE, ""), labels_.get(labels.ZONE, "")
    capacity_type = _capacity_type(labels_)
    disruption: NodeDisruption = disruption_of(claim, node, running_pods, pool, now, event)
    return NodeRow(
        node=node.name if node is not None else "",
        claim=claim.name if claim is not None else "",
        pool=labels_.get(labels.NODEPOOL, ""),
        instance_type=instance_type,
        zone=zone,
        capacity_type=capacity_type,
        created=claim.created_at if claim is not None else from_epoch(node.created) if node is not None else None,
        stage=stage_of(claim, node),
        ready=node is not None and node.ready,
        pods=len(running_pods),
        pod_limit=allocatable.get(PODS, 0),
        cpu_requests=requests.get(CPU, 0),
        cpu=allocatable.get(CPU, 0),
        memory_requests=requests.get(MEMORY, 0),
        memory=allocatable.get(MEMORY, 0),
        price=_price(claim, labels_, prices) if _is_bought(claim, node) else None,
        disruption=disruption.state,
        why=disruption.why,
        command=claim.disrupted_by if claim is not None else "",
        replaces=claim.replacement_for if claim is not None else "",
        instance=claim.instance_id if claim is not None else "",
        expires=_expiry(claim),
        kept_until=claim.keep_until if claim is not None and claim.keep_until and claim.keep_until > now else None,
        labels=node.labels if node is not None else claim.labels if claim is not None else {},
    )


def labels_of(claim: ClaimRecord | None, node: NodeRecord | None) -> dict[str, str]:
    """Return the labels of a NodeClaim and its Node, of which the Node's take precedence."""
    return {**(claim.labels if claim is not None else {}), **(node.labels if node is not None else {})}


def _price(claim: ClaimRecord | None, labels_: Mapping[str, str], prices: Prices) -> float | None:
    """What the node costs now. A stopped instance costs nothing but its volumes: `tenon cost` counts these."""
    return 0.0 if claim is not None and claim.warm == STOPPED else running_price(claim, labels_, prices)


def running_price(claim: ClaimRecord | None, labels_: Mapping[str, str], prices: Prices) -> float | None:
    """Return what a node with these labels costs an hour while its instance runs; None if that is not known.

    Without spot prices, a spot node counts what it cost at launch, not the list price. A dedicated instance does too,
    because the prices are those of shared ones.
    """
    at_launch = claim.launch_price if claim is not None else None
    capacity_type = _capacity_type(labels_)
    is_spot = capacity_type == labels.SPOT
    has_own_price = not prices.spot if is_spot else labels_.get(labels.TENANCY) == labels.DEDICATED
    if has_own_price and at_launch is not None:
        return at_launch
    price = prices.of(labels_.get(labels.INSTANCE_TYPE, ""), labels_.get(labels.ZONE, ""), capacity_type)
    return at_launch if price is None else price


def _expiry(claim: ClaimRecord | None) -> datetime | None:
    """When the node expires. An operator who keeps it longer postpones that, as in `tenon.node.state.expiry`."""
    expires_at = expiry_of(claim) if claim is not None else None
    if claim is None or expires_at is None or claim.keep_until is None:
        return expires_at
    return max(expires_at, claim.keep_until)


def _allocatable(claim: ClaimRecord | None, node: NodeRecord | None) -> Resources:
    """What the Node offers, or else what its NodeClaim expects of it."""
    if node is not None and node.allocatable:
        return node.allocatable
    try:
        return parse_resources(claim.status.get("allocatable")) if claim is not None else {}
    except (ValueError, AttributeError):
        return {}


def _is_bought(claim: ClaimRecord | None, node: NodeRecord | None) -> bool:
    """Whether an instance costs money: a claim without an instance costs none yet, and Fargate has other prices."""
    if claim is not None:
        return bool(claim.provider_id)
    return node is not None and node.labels.get(FARGATE) != "fargate"


def _capacity_type(labels_: Mapping[str, str]) -> str:
    """The capacity type that Karpenter's label says, or else that of a managed node group."""
    if capacity_type := labels_.get(labels.CAPACITY_TYPE):
        return capacity_type
    group_type = labels_.get(EKS_CAPACITY_TYPE)
    if group_type is None:
        return labels.ON_DEMAND if labels_.get(labels.INSTANCE_TYPE) else ""
    return labels.SPOT if group_type == EKS_SPOT else labels.ON_DEMAND
