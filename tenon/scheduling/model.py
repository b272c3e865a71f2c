"""What the scheduling engine reads and writes: plain records, no Kubernetes objects.

The cluster cache and the file reader of ``tenon simulate`` both produce these; the engine knows nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tenon.resources import MEMORY, Resources
from tenon.scheduling.pod_rules import NO_RULES, PodRules
from tenon.scheduling.requirements import Requirements

NODE_CHARGE = 0.02
"""Dollars an hour that a node counts beside its price: its kubelet, DaemonSets, addresses and upkeep are not free, and
between plans that cost nearly the same the one with fewer nodes is better. About half the price of one vCPU."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A node taint; ``effect`` is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    effect: str
    value: str = ""


@dataclass(frozen=True, slots=True)
class Toleration:
    """A pod toleration as Kubernetes writes it; an empty ``key`` with Exists tolerates everything."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Whether this toleration covers the taint."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        return bool(self.key) and self.value == taint.value


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod as scheduling sees it.

    ``requests`` is the effective request (init containers, sidecars, overhead folded in) and counts the pod itself
    as one of the resource ``pods``. ``required_terms`` are the OR-ed node-affinity terms, each already combined with
    the nodeSelector; a pod without any constraint has no term.
    """

    namespace: str
    name: str
    uid: str
    requests: Resources
    labels: Mapping[str, str] = field(default_factory=dict)
    required_terms: tuple[Requirements, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[tuple[str, int, str], ...] = ()
    created: float = 0.0
    priority: int = 0
    node_name: str = ""
    unsupported: str = ""
    """Why this pod must not be placed: a rule that it states and the engine does not know, in one sentence."""
    rules: PodRules = NO_RULES
    """What it says about other pods, and its preferences."""
    volume_terms: tuple[Requirements, ...] = ()
    """Where its volumes can be reached: OR-ed alternatives that its node must meet beside ``required_terms``."""
    attachments: tuple[tuple[str, str], ...] = ()
    """(CSI driver, claim) of each volume that must be attached to its node."""
    workload: str = ""
    """What controls it, as ``Kind/name``: for pods of a Deployment's ReplicaSets the Deployment. Empty for none."""
    buffer: str = ""
    """The CapacityBuffer (``namespace/name``) whose room it stands for; no cluster has such a pod."""

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


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
    host_ports: tuple[tuple[str, int, str], ...] = ()
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
    """A node to buy: ``instance_types`` cheapest first, every one of which fits all of ``pods``."""

    pool: str
    pods: tuple[Pod, ...]
    instance_types: tuple[str, ...]
    requirements: Requirements
    requests: Resources
    """Pods and DaemonSets together."""
    price: float
    offering: tuple[str, str, str]
    """(instance type, zone, capacity type) of the cheapest way to buy it."""
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
