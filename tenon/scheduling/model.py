"""What the scheduling engine reads and writes: plain records, no Kubernetes objects.

The cluster cache and the file reader of ``tenon simulate`` both produce these; the engine knows nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tenon.kube.host_ports import HostPort
from tenon.kube.offerings import OfferingKey
from tenon.kube.pod import Pod
from tenon.kube.requirements import Requirements
from tenon.kube.taints import Taint
from tenon.resources import MEMORY, Resources

NODE_CHARGE = 0.02
"""Dollars an hour that a node counts beside its price: its kubelet, DaemonSets, addresses and upkeep are not free, and
between plans that cost nearly the same the one with fewer nodes is better. About half the price of one vCPU."""


@dataclass(frozen=True, slots=True)
class Offering:
    """One way to buy an instance type: a zone and a capacity type at a price in dollars an hour."""

    zone: str
    capacity_type: str
    price: float
    available: bool = True
    zone_id: str = ""
    reservation_id: str = ""
    reservation_capacity: int = 0


@dataclass(frozen=True, slots=True)
class InstanceType:
    """An instance type: its labels as requirements, what pods can use of it, and how it can be bought."""

    name: str
    requirements: Requirements
    capacity: Resources
    overhead: Resources
    offerings: tuple[Offering, ...]

    @property
    def allocatable(self) -> Resources:
        """Capacity less overhead; pages that are reserved as huge are not there as ordinary memory."""
        left = {name: units - self.overhead.get(name, 0) for name, units in self.capacity.items()}
        huge = sum(units for name, units in self.capacity.items() if name.startswith("hugepages-"))
        if huge:
            left[MEMORY] = max(0, left.get(MEMORY, 0) - huge)
        return left


@dataclass(frozen=True, slots=True)
class Pool:
    """A NodePool as scheduling sees it.

    ``requirements`` hold the template's requirements and its labels; ``usage`` is what the pool's nodes and claims
    already take of its ``limits`` (both may hold the pseudo-resource ``nodes``).
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
    """Zones in which its class has subnets; empty where that is not known."""
    lacking: str = ""
    """Why there is no instance type for it, in words that follow its name; empty where there is one."""


@dataclass(frozen=True, slots=True)
class Node:
    """Existing or in-flight capacity. ``used`` is what its pods request, DaemonSet pods that still come included."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    allocatable: Resources
    used: Resources
    initialized: bool = True
    host_ports: tuple[HostPort, ...] = ()
    requirements: Requirements | None = None
    """Set for in-flight claims without a Node: what is known of its labels so far."""
    pods: Sequence[Pod] = ()
    """Pods that run on it or are promised to it, for the rules between pods; ``used`` holds their requests already."""
    closed: bool = False
    """It takes no new pods, because it is leaving or has no instance yet; the pods on it still count."""
    volume_limits: Mapping[str, int] = field(default_factory=dict)
    """How many volumes of each CSI driver it can have attached; a driver that is not named has no limit."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One batch: everything a plan depends on."""

    pods: Sequence[Pod]
    pools: Sequence[Pool]
    nodes: Sequence[Node] = ()
    daemons: Sequence[Pod] = ()
    """One template pod for each DaemonSet."""
    namespaces: Mapping[str, Mapping[str, str]] | None = None
    """Labels of the namespaces, for terms that choose them by label; None when they are not known."""
    ignore_preferences: bool = False
    """PREFERENCE_POLICY=Ignore: preferred affinities and ScheduleAnyway spread are passed over."""
    min_values_best_effort: bool = False
    """MIN_VALUES_POLICY=BestEffort: pools' ``minValues`` are lowered to what the types that hold the pods offer."""
    node_charge: float = NODE_CHARGE
    """Dollars an hour that a node counts beside its price when plans are compared."""
    most_pods_share: float = 1.0
    """The part of a workload's pods that a single node may carry, above 0 and at most 1 (`Shares`)."""


@dataclass(frozen=True, slots=True)
class PlannedClaim:
    """A NodeClaim before it exists: ``instance_types`` are cheapest first, and each of them holds all of ``pods``."""

    pool: str
    pods: tuple[Pod, ...]
    instance_types: tuple[str, ...]
    requirements: Requirements
    requests: Resources
    """Pods and DaemonSets together."""
    price: float
    offering: OfferingKey
    """The cheapest way to buy it."""
    min_values_relaxed: bool = False
    """Whether a ``minValues`` of the pool was lowered for it."""
    largest: Resources = field(default_factory=dict)
    """The most CPU and memory, and the most of each resource that the pool limits, that one of its types has."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The engine's answer. Each pod of the problem is in exactly one of the four parts."""

    claims: tuple[PlannedClaim, ...] = ()
    placements: Mapping[str, tuple[Pod, ...]] = field(default_factory=dict)
    """Existing or in-flight node name -> pods newly planned onto it."""
    unschedulable: Mapping[str, str] = field(default_factory=dict)
    """Pod key -> why, per NodePool, in one sentence a person can act on."""
    unreached: frozenset[str] = frozenset()
    """The keys of pods that nothing is known of, because the solve had to end before their turn."""
