"""Warm nodes: how many to buy, when to stop and start them, and which of them plans may use.

A warm node is bought like a node of a static NodePool, with a taint that keeps pods away. Once it is initialized, its
instance is stopped. Plans count its room as that of a node that starts; one that gets pods there is started, and
becomes an ordinary node when its kubelet reports a new boot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from math import inf

from tenon.apis import labels
from tenon.apis.nodepool import NodePool
from tenon.apis.nodeschedule import why_closed
from tenon.apis.teardown import is_torn_down
from tenon.apis.warm import FILLING, STARTING, STOPPED, is_unreadable, warm_count
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.offerings import OfferingKey
from tenon.kube.pod import Pod
from tenon.kube.requirements import Requirements
from tenon.kube.taints import Taint
from tenon.messages.explanation import Explanation
from tenon.provisioning.cost_limits import BoughtOffering, with_cost_limits
from tenon.provisioning.planning_policy import PlanPolicy
from tenon.provisioning.pools import is_available, scheduling_pool
from tenon.provisioning.purchase import explanation
from tenon.resources import Resources
from tenon.scheduling.empty_node import NoEmptyNodeError, empty_node_problem, plan_empty_node
from tenon.scheduling.explanation.type_choice import TypeChoiceExplainer
from tenon.scheduling.model import InstanceType, Node, Offering, PlannedClaim, Pool, Problem

JOINS_WITHIN = timedelta(minutes=10)
"""How long a warm node may take from the plan that uses it until it is Ready after a new boot."""
STOPS_WITHIN = timedelta(minutes=2)
"""How long the Node of an instance that was stopped may still look Ready. After that it is stopped again."""
PODS_LEAVE_WITHIN = timedelta(minutes=10)
"""How long a warm node that runs waits for the end of pods that tolerate its taint. After that it is not stopped, but
an ordinary node: evicted, they could come back to it, and stopped under them, they would end without an eviction."""
OFF_TAINTS = frozenset(
    {
        labels.WARM,
        "node.cloudprovider.kubernetes.io/shutdown",
        labels.NOT_READY_TAINT,
        "node.kubernetes.io/unreachable",
    }
)
"""The taints that a stopped node loses when it has started, besides those that plans ignore on each starting node."""


class WarmStep(StrEnum):
    """What a warm node needs next."""

    WAIT = "wait"
    STOP = "stop"
    START = "start"
    UNTAINT = "untaint"
    """Let pods come: it has booted and is Ready."""
    FINISH = "finish"
    """Make it an ordinary node."""
    USE = "use"
    """Make it an ordinary node, although no plan uses it: pods that tolerate its taint run there, and stay."""
    GIVE_UP = "give up"
    """Remove it: it was started and did not come back."""


@dataclass(frozen=True, slots=True)
class WarmNode:
    """A warm NodeClaim with what its Node says."""

    claim: ClaimRecord
    leaving: bool = False
    has_node: bool = False
    ready: bool = False
    boot_id: str = ""
    tainted: bool = False
    """Its Node has the taint that keeps pods away."""
    pods_since: datetime | None = None
    """Since when it has pods, apart from those of DaemonSets and static ones; None if it has none."""

    @property
    def kept(self) -> bool:
        """Whether it counts as one of the warm nodes that its NodePool keeps."""
        return not self.leaving and self.claim.warm in (FILLING, STOPPED)


def next_step(node: WarmNode, now: datetime) -> WarmStep:
    """Decide what a warm node needs next. Every step may be repeated."""
    if node.leaving:
        return WarmStep.WAIT
    since = node.claim.warm_since
    match node.claim.warm:
        case "filling":
            return _stop(node, now) if node.claim.initialized and node.has_node else WarmStep.WAIT
        case "stopped":
            runs = node.ready and since is not None and now - since >= STOPS_WITHIN
            return _stop(node, now) if runs else WarmStep.WAIT
        case "starting":
            before = node.claim.annotations.get(labels.WARM_BOOT_ID, "")
            if node.ready and node.boot_id not in ("", before):
                return WarmStep.UNTAINT if node.tainted else WarmStep.FINISH
            if since is not None and now - since >= JOINS_WITHIN:
                return WarmStep.GIVE_UP
            return WarmStep.START
    return WarmStep.WAIT


def _stop(node: WarmNode, now: datetime) -> WarmStep:
    """Decide what a warm node that runs needs: pods that tolerate every taint may have come to it."""
    if node.pods_since is None:
        return WarmStep.STOP
    if now - node.pods_since < PODS_LEAVE_WITHIN:
        return WarmStep.WAIT
    return WarmStep.UNTAINT if node.tainted else WarmStep.USE


@dataclass(frozen=True, slots=True)
class Refill:
    """What brings a NodePool closer to its number of warm nodes."""

    missing: int = 0
    delete: tuple[ClaimRecord, ...] = ()


def refill(pool: NodePool, nodes: Sequence[WarmNode]) -> Refill:
    """Decide how many warm nodes a NodePool lacks, or which ones it has too many of.

    A NodePool that is being deleted lacks none, because its NodeClaims go with it, and a static one keeps none, because
    no plan starts nodes of it. One that a NodeSchedule has closed gets none, and keeps those that it has until they
    leave as its other nodes do. A number that cannot be read changes nothing: a typing mistake must not cost nodes.
    """
    if pool.spec.replicas is None and is_unreadable(pool.metadata.annotations):
        return Refill()
    count = 0 if pool.spec.replicas is not None else warm_count(pool.metadata.annotations)
    kept_nodes = [node for node in nodes if node.kept]
    if len(kept_nodes) > count:
        surplus = sorted(kept_nodes, key=_deletion_order)[: len(kept_nodes) - count]
        return Refill(delete=tuple(node.claim for node in surplus))
    annotations = pool.metadata.annotations
    buys_none = pool.metadata.deletion_timestamp is not None or is_torn_down(annotations) or why_closed(annotations)
    return Refill() if buys_none else Refill(missing=count - len(kept_nodes))


def _deletion_order(node: WarmNode) -> tuple[bool, bool, str, str]:
    """Sort claims without an instance first, then running ones, then the older ones, which expire sooner."""
    created = str(node.claim.metadata.get("creationTimestamp") or "")
    return bool(node.claim.provider_id), node.claim.warm == STOPPED, created, node.claim.name


def warm_node(
    pool: NodePool,
    types: Sequence[InstanceType],
    usage: Resources,
    daemons: Sequence[Pod],
    namespaces: Mapping[str, Mapping[str, str]],
    policy: PlanPolicy,
    purchases: Sequence[BoughtOffering] = (),
) -> tuple[PlannedClaim, Explanation]:
    """Return a warm node of the pool, without pods, and why it is bought.

    It is an on-demand node within the pool's limits: EC2 does not keep a stopped spot instance for its owner. It counts
    at its full price also while it is stopped, so that it may start whenever pods need it. ``purchases`` are what was
    bought for all NodePools, for limits on costs.

    Raises:
        NoEmptyNodeError: no type fits, or the limits leave no room.
    """
    cluster = Problem(
        pods=(),
        pools=(),
        daemons=daemons,
        namespaces=namespaces,
        min_values_best_effort=policy.min_values_best_effort,
        node_charge=policy.node_charge,
    )
    on_demand = Requirements.from_labels({labels.CAPACITY_TYPE: labels.ON_DEMAND})
    (bought_from,) = with_cost_limits([scheduling_pool(pool, types, usage)], [(pool, types)], lambda: purchases, policy)
    requirements = bought_from.requirements.with_(on_demand)
    allowed = [kind for kind in bought_from.instance_types if is_available(kind, requirements)]
    if not allowed:
        lacking = bought_from.why_lacking or "none of its instance types is on sale as on-demand"
        raise NoEmptyNodeError(f"NodePool {pool.metadata.name}: {lacking}")
    bought_from = replace(bought_from, requirements=requirements, instance_types=allowed)
    problem = replace(empty_node_problem(cluster, bought_from), pools=[bought_from])  # with its limits
    planned = plan_empty_node(problem)
    occasion = f"one of {warm_count(pool.metadata.annotations)} warm nodes of NodePool {pool.metadata.name}"
    return planned, explanation(planned, TypeChoiceExplainer(problem).why(planned), occasion)


def with_warm_nodes(problem: Problem, states: Mapping[str, str]) -> Problem:
    """Return the problem in which stopped and starting warm nodes take pods like nodes that start.

    ``states``: the state of each warm node, by the name of its Node.
    """
    if not states:
        return problem
    pools = {pool.name: pool for pool in problem.pools}
    return replace(problem, nodes=[_opened(node, states.get(node.name, ""), pools) for node in problem.nodes])


def _opened(node: Node, state: str, pools: Mapping[str, Pool]) -> Node:
    if state not in (STOPPED, STARTING) or node.closed:
        return node
    opened = replace(node, taints=taints_once_started(node.taints), initialized=False)
    if state == STARTING:
        return opened
    own_offering = OfferingKey.of_labels(node.labels)
    offerings = _offerings(node, own_offering.instance_type, pools)
    in_its_zone = [offering for offering in offerings if offering.zone == own_offering.zone]
    if offerings and not in_its_zone:  # a zonal shift moves the cluster away from this zone
        return replace(node, closed=True)
    prices = (offering.price for offering in in_its_zone if offering.capacity_type == own_offering.capacity_type)
    return replace(opened, stopped=True, start_price=min(prices, default=inf))


def taints_once_started(taints: Iterable[Taint]) -> tuple[Taint, ...]:
    """Return the taints of a stopped or starting warm node that stay when it has started."""
    return tuple(taint for taint in taints if taint.key not in OFF_TAINTS)


def _offerings(node: Node, instance_type: str, pools: Mapping[str, Pool]) -> list[Offering]:
    """Return the offerings of a node's type; empty if its NodePool does not know the type any more."""
    pool = pools.get(node.labels.get(labels.NODEPOOL, ""))
    types = pool.instance_types if pool is not None else ()
    return [offering for kind in types if kind.name == instance_type for offering in kind.offerings]


def to_start(placements: Mapping[str, Iterable[Pod]], states: Mapping[str, str]) -> list[str]:
    """Return the names of the stopped nodes that a plan has put pods on."""
    return sorted(name for name, pods in placements.items() if states.get(name) == STOPPED and any(True for _ in pods))
