"""The engine's input and output types: plain records, not Kubernetes objects.

The cluster cache and the file reader of ``tenon simulate`` both produce the input. The engine depends on nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from tenon.apis import labels
from tenon.apis.purchase_goals import Goals
from tenon.kube.host_ports import HostPort
from tenon.kube.offerings import OfferingKey
from tenon.kube.pod import Pod
from tenon.kube.pool_reasons import NoPlace, Obstacle, text_of
from tenon.kube.requirements import Requirements
from tenon.kube.taints import Taint
from tenon.resources import MEMORY, Resources, subtract, total

OFFERING_KEYS = (
    labels.ZONE,
    labels.CAPACITY_TYPE,
    labels.ZONE_ID,
    labels.RESERVATION_ID,
    labels.RESERVATION_TYPE,
    labels.RESERVATION_INTERRUPTIBLE,
)
"""The labels that a node gets from the offering that it is bought by."""
LATER_LABELS = Requirements.from_labels({labels.REGISTERED: "true", labels.INITIALIZED: "true"})
"""Labels that every node of a NodePool gets when it is registered and initialized. Pods may wait for them."""
NODE_CHARGE = 0.02
"""Dollars an hour added to the price of each node, because a kubelet, DaemonSets, addresses and upkeep are not free.
Between plans that cost nearly the same, the one with fewer nodes is better. About half the price of one vCPU.
"""


@dataclass(frozen=True, slots=True)
class Offering:
    """One way to buy an instance type: a zone and a capacity type, at a price in dollars an hour."""

    zone: str
    capacity_type: str
    price: float
    available: bool = True
    """Whether it is healthy: EC2 offers it in the class's zones and has not refused it. A full reservation is."""
    zone_id: str = ""
    reservation_id: str = ""
    reservation_capacity: int = 0
    """How many more nodes the reservation has places for."""
    reservation_type: str = ""
    reservation_interruptible: str = ""
    """``true`` or ``false``, as the label has it; empty without a reservation."""
    counted_at: float = 0.0
    """When EC2 counted the places, in seconds since 1970."""

    @property
    def launchable(self) -> bool:
        """Whether a node can be launched with it now: it is available and, if it is of a reservation, has a place."""
        return self.available and (not self.reservation_id or self.reservation_capacity > 0)

    @property
    def values(self) -> tuple[str, ...]:
        """The values of `OFFERING_KEYS`. An empty one is a label that the node does not get."""
        return (
            self.zone,
            self.capacity_type,
            self.zone_id,
            self.reservation_id,
            self.reservation_type,
            self.reservation_interruptible,
        )

    def meets(self, requirements: Requirements) -> bool:
        """Whether a node with these requirements may be bought by it."""
        return all(
            requirements[key].has(value) if value else requirements[key].may_be_absent
            for key, value in zip(OFFERING_KEYS, self.values, strict=True)
            if key in requirements
        )


@dataclass(frozen=True, slots=True)
class InstanceType:
    """An instance type: its labels as requirements, its capacity, and the ways to buy it."""

    name: str
    requirements: Requirements
    capacity: Resources
    overhead: Resources
    offerings: tuple[Offering, ...]
    has_image: bool = True
    """Whether an image of the EC2NodeClass boots it. If not, its offerings are unavailable, for new nodes only."""

    @property
    def allocatable(self) -> Resources:
        """Capacity minus overhead. Memory that is reserved as huge pages does not count as ordinary memory."""
        remaining = {name: units - self.overhead.get(name, 0) for name, units in self.capacity.items()}
        huge = sum(units for name, units in self.capacity.items() if name.startswith("hugepages-"))
        if huge:
            remaining[MEMORY] = max(0, remaining.get(MEMORY, 0) - huge)
        return remaining


@dataclass(frozen=True, slots=True)
class Commitment:
    """A Savings Plan, or Reserved Instances, with what is left of them. On-demand nodes that they cover are paid for.

    Amounts are in units of its own: micro-dollars an hour, or sizes of instances.
    """

    name: str
    """What it is, as sentences name it."""
    remaining: int
    units: Mapping[str, int]
    """How much a node uses up, by the instance types that it covers."""
    zone: str = ""
    """The only zone in which it covers nodes; empty for all."""


@dataclass(frozen=True, slots=True)
class Pool:
    """A NodePool as the engine sees it.

    ``requirements`` hold the template's requirements and labels. ``usage`` is how much of ``limits`` the pool's nodes
    and claims already use. Both ``usage`` and ``limits`` may hold the pseudo-resource ``nodes``.
    """

    name: str
    requirements: Requirements
    instance_types: Sequence[InstanceType]
    weight: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    limits: Resources | None = None
    usage: Resources = field(default_factory=dict)
    zones: frozenset[str] = frozenset()
    """Zones in which the pool's node class has subnets; empty if unknown."""
    goals: Goals | None = None
    """What its nodes should be, where several would do."""
    lacking: tuple[Obstacle, ...] = ()
    """Why the pool has no instance type, in words that follow the pool's name; empty if it has one."""
    commitments: tuple[Commitment, ...] = ()
    """What is left of the account's commitments, in the order in which AWS uses them. Pools share them."""

    @property
    def why_lacking(self) -> str:
        """Why it has no instance type, in one clause; empty if it has one."""
        return text_of(self.lacking)

    spot_scores: Mapping[str, int] = field(default_factory=dict)
    """Spot placement scores for its instance types, from 1 to 10, by zone ID or zone; empty if none are known."""

    @property
    def of_nodes(self) -> Requirements:
        """What holds for the labels of the pool's nodes, with those that every node gets in time."""
        own = Requirements.from_labels({**self.labels, labels.NODEPOOL: self.name})
        return self.requirements.with_(own).with_(LATER_LABELS)


@dataclass(frozen=True, slots=True)
class Node:
    """Existing or in-flight capacity. ``used`` holds the requests of its pods and of DaemonSet pods yet to start."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    allocatable: Resources
    used: Resources
    initialized: bool = True
    host_ports: tuple[HostPort, ...] = ()
    requirements: Requirements | None = None
    """Set for in-flight claims without a Node: what is known of the labels so far."""
    pods: Sequence[Pod] = ()
    """Pods that run on the node or are promised to it, for rules between pods. ``used`` includes their requests."""
    closed: bool = False
    """True if the node takes no new pods, because it is leaving or has no instance yet. The pods on it still count."""
    stopped: bool = False
    """True if its instance is stopped and would be started for pods, which need it only if no other node has room."""
    start_price: float = 0.0
    """Of a stopped one: dollars an hour once it is started. Of those that fit, the cheapest is started."""
    volume_limits: Mapping[str, int] = field(default_factory=dict)
    """How many volumes of each CSI driver the node can attach. A driver that is not listed has no limit."""
    capacity: Resources = field(default_factory=dict)
    """What the node has in total, which the limits of its NodePool count. Empty if unknown."""
    terminating_users: Mapping[str, str] = field(default_factory=dict)
    """By ReadWriteOncePod claim, the key of the terminating pod that still uses it. ``pods`` has no such pods."""

    @property
    def limited(self) -> Resources:
        """What the node uses of its NodePool's limits; the allocatable part if its capacity is unknown."""
        return self.capacity or self.allocatable

    def with_pods(self, pods: Sequence[Pod]) -> Node:
        """Return the node as if these pods ran on it too."""
        if not pods:
            return self
        used = total((self.used, *(pod.requests for pod in pods)))
        ports = (*self.host_ports, *(port for pod in pods for port in pod.host_ports))
        return replace(self, used=used, pods=(*self.pods, *pods), host_ports=ports)

    def without_pods(self, uids: Set[str]) -> Node:
        """Return the node as if the pods with these UIDs were not on it, so that others can use what they have."""
        leaving = [pod for pod in self.pods if pod.uid in uids] if uids else []
        if not leaving:
            return self
        ports = {port for pod in leaving for port in pod.host_ports}
        return replace(
            self,
            used=subtract(self.used, total(pod.requests for pod in leaving)),
            pods=tuple(pod for pod in self.pods if pod.uid not in uids),
            host_ports=tuple(port for port in self.host_ports if port not in ports),
        )


@dataclass(frozen=True, slots=True)
class Problem:
    """One batch: everything a plan depends on."""

    pods: Sequence[Pod]
    pools: Sequence[Pool]
    nodes: Sequence[Node] = ()
    daemons: Sequence[Pod] = ()
    """One template pod for each DaemonSet."""
    namespaces: Mapping[str, Mapping[str, str]] | None = None
    """Labels of the namespaces, for terms with a namespace selector; None if unknown."""
    ignore_preferences: bool = False
    """PREFERENCE_POLICY=Ignore: ignore preferred affinities and ScheduleAnyway spread constraints."""
    min_values_best_effort: bool = False
    """MIN_VALUES_POLICY=BestEffort: lower a pool's ``minValues`` to what the types that hold the pods offer."""
    node_charge: float = NODE_CHARGE
    """Dollars an hour added to the price of each node when plans are compared."""
    most_pods_share: float = 1.0
    """The part of a workload's pods that one node may carry, above 0 and at most 1 (`BlastRadius`)."""


@dataclass(frozen=True, slots=True)
class PlannedClaim:
    """A NodeClaim that does not exist yet. Each of ``instance_types``, cheapest first, holds all of ``pods``.

    It is not the manifest, because the engine compares many of them: `tenon.provisioning.claims` builds the manifests
    of those that are bought.
    """

    pool: str
    pods: tuple[Pod, ...]
    instance_types: tuple[str, ...]
    requirements: Requirements
    requests: Resources
    """Requests of the pods and the DaemonSets together."""
    price: float
    offering: OfferingKey
    """The cheapest way to buy it."""
    min_values_relaxed: bool = False
    """True if a ``minValues`` of the pool was lowered for this claim."""
    goals: tuple[str, ...] = ()
    """What goals of its NodePool have changed about it, and what that costs, each in a clause."""
    largest: Resources = field(default_factory=dict)
    """The most CPU, memory, and each resource that the pool limits, that any of the listed types has."""
    commitment: str = ""
    """The name of the commitment that covers it, whichever listed type it becomes; empty for none."""
    committed: int = 0
    """The most that it may use up of that commitment."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The engine's answer. Each pod of the problem is in exactly one of the four parts."""

    claims: tuple[PlannedClaim, ...] = ()
    placements: Mapping[str, tuple[Pod, ...]] = field(default_factory=dict)
    """Existing or in-flight node name -> pods newly planned onto it."""
    unschedulable: Mapping[str, NoPlace] = field(default_factory=dict)
    """Pod key -> why the pod cannot be scheduled, per NodePool, with what to change."""
    unreached: frozenset[str] = frozenset()
    """Keys of pods without a verdict, because the solve ended before it reached them."""
