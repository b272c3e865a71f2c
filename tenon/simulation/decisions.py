"""Plans for a cluster's state with the same steps as the worker's planner.

Pods with preferences use existing nodes first. kube-scheduler places a pod wherever it fits, and its preferences only
choose among the nodes, so the worker plans only for pods that fit nowhere. Pending pods from files have met no
kube-scheduler yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodeoverlay import NodeOverlay
from tenon.apis.nodepool import NodePool
from tenon.ec2.commitments.coverage import NO_COVERAGE, Coverage
from tenon.ec2.commitments.pools import with_commitments
from tenon.ec2.families.own_kubelet import with_own_kubelet
from tenon.ec2.refusals.unavailable import next_attempt_of
from tenon.ec2.types.bootable_types import without_images
from tenon.ec2.types.capacity_reservations import Places, with_reservations
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.offerings import OfferingKey
from tenon.kube.pod import Pod
from tenon.provisioning.overlays import PoolTypes, apply_overlays
from tenon.provisioning.planning_policy import PlanPolicy
from tenon.provisioning.pool_overlap import notes as overlap_notes
from tenon.provisioning.pool_overlap import overlapping
from tenon.provisioning.problem import PlannedCluster, problem_of, with_pool_reasons
from tenon.provisioning.readiness import usable_pools
from tenon.provisioning.refused_offerings import with_refused_offerings
from tenon.provisioning.shortage_waits import dear_nodes, elsewhere, held_back, without_dear_types
from tenon.provisioning.solving import solve_with_buffers
from tenon.provisioning.static_capacity import usable_static_pools
from tenon.provisioning.types_without_image import with_types_without_image
from tenon.rollout.revisions import class_key
from tenon.scheduling.explanation.type_choice import TypeChoiceExplainer
from tenon.scheduling.model import InstanceType, Plan, Problem
from tenon.scheduling.most_pods import solve_for_most_pods
from tenon.scheduling.offerings.spot_scores import ScoresOf, no_scores, with_spot_scores
from tenon.scheduling.offerings.type_table import TypeTables
from tenon.scheduling.pods.local_disks import lost_disks
from tenon.scheduling.pods.relaxation import without_preferences

Placements = Mapping[str, tuple[Pod, ...]]


def placed_by_kube_scheduler(problem: Problem) -> Placements:
    """Return, by node, the pods with preferences that fit on nodes which run already.

    All pods compete for the room, but those without preferences stay in the plan, which uses existing nodes first too.
    """
    running = [node for node in problem.nodes if node.requirements is None and node.initialized]
    preferring = {pod.key for pod in problem.pods if not pod.buffer and without_preferences(pod.rules) != pod.rules}
    if problem.ignore_preferences or not preferring or not running:
        return {}
    placements: dict[str, tuple[Pod, ...]] = {}
    for pods in _by_priority(problem.pods):
        plan = solve_for_most_pods(replace(problem, pods=pods, pools=[], nodes=running)).placements
        running = [node.with_pods(plan.get(node.name, ())) for node in running]
        for name, placed in plan.items():
            placements[name] = (*placements.get(name, ()), *(pod for pod in placed if pod.key in preferring))
    return {name: placed for name, placed in placements.items() if placed}


def _by_priority(pods: Sequence[Pod]) -> Iterator[list[Pod]]:
    """Yield the pods of each priority, the highest first, as kube-scheduler's queue does."""
    groups: dict[int, list[Pod]] = {}
    for pod in pods:
        if not pod.buffer:
            groups.setdefault(pod.priority, []).append(pod)
    for priority in sorted(groups, reverse=True):
        yield groups[priority]


def with_placements(plan: Plan, placed: Placements) -> Plan:
    """Return the plan with these pods on existing nodes too."""
    if not placed:
        return plan
    names = sorted({*plan.placements, *placed})
    return replace(plan, placements={name: (*placed.get(name, ()), *plan.placements.get(name, ())) for name in names})


MAX_LOST_NOTES = 5
"""Maximum number of notes about pods whose local volume is on a machine that is gone."""
MAX_OVERLAP_NOTES = 5
"""Maximum number of notes about NodePools that accept the same pods."""


@dataclass(frozen=True, slots=True)
class Reserved:
    """What the classes' capacity reservations have left, for a plan that uses them as the worker does."""

    places: Mapping[str, Places]
    """What EC2 reports. A reservation that it does not report has no place."""
    claims: Sequence[ClaimRecord]
    """The NodeClaims that name a reservation: EC2 may not have counted them."""


@dataclass(frozen=True, slots=True)
class PlanQuestion:
    """The input to a plan besides the cluster: the pods, the available instance types and the settings."""

    pods: Sequence[Pod]
    types: Sequence[InstanceType]
    policy: PlanPolicy = field(default_factory=PlanPolicy)
    overlays: Sequence[NodeOverlay] = ()
    """NodeOverlays, which adjust prices and capacity."""
    reserved: Reserved | None = None
    """The capacity reservations in the classes' status. None: only those of the available types are used."""
    types_of: Callable[[EC2NodeClass], Sequence[InstanceType]] | None = None
    """What a class makes of ``types``. None: every class has them as they are."""
    refused: Mapping[OfferingKey, datetime] = field(default_factory=dict)
    """What EC2 refused, with the time when Tenon asks for it again. The available types lack it already."""
    coverage: Coverage = NO_COVERAGE
    """What the account's Reserved Instances and Savings Plans cover, and leave for new nodes."""
    scores_of: ScoresOf = no_scores
    """The Spot placement scores of a NodePool that follows them."""


@dataclass(frozen=True, slots=True)
class SolvedProblem:
    """A plan with the problem that it solves."""

    problem: Problem
    plan: Plan
    seconds: float
    notes: Sequence[str] = ()
    """Remarks for the user about how the plan was made."""
    overlaps: Sequence[str] = ()
    """Those of the notes that name NodePools which take the same pods."""
    pools_with_types: PoolTypes = ()
    """The NodePools with all types of their classes, among them those that the problem lacks."""
    tables: TypeTables = field(default_factory=TypeTables)
    """The indexes of the instance types, for further questions about the problem."""


def decide(cluster: PlannedCluster, question: PlanQuestion, clock: Callable[[], float]) -> SolvedProblem:
    """Plan for the pods. ``clock`` measures the duration."""
    pools = usable_pools(cluster.node_pools(), cluster.node_class)
    # An overlay that conflicts in a static NodePool is refused in all.
    static = usable_static_pools(cluster.node_pools(), cluster.node_class) if question.overlays else []
    sold_types = sold([*pools, *static], cluster, question)
    began = clock()
    overlaid = apply_overlays(sold_types, question.overlays)
    pools_with_types = overlaid.pools_with_types[: len(pools)]
    problem = problem_of(cluster, question.pods, pools_with_types, question.policy, refused=question.refused)
    problem = with_spot_scores(with_commitments(problem, question.coverage.remaining), question.scores_of)
    placed, tables = placed_by_kube_scheduler(problem), TypeTables()
    plan = with_pool_reasons(
        _planned(problem, placed, cluster, question, pools_with_types, tables), cluster, question.pods
    )
    seconds = clock() - began
    notes = [f"NodeOverlay {name} is left out: {why}" for name, why in sorted(overlaid.refused.items())]
    overlaps = overlap_notes(overlapping(pools, cluster.node_class))
    notes += overlaps[:MAX_OVERLAP_NOTES]
    placed_keys = {pod.key for pods in (*plan.placements.values(), *(c.pods for c in plan.claims)) for pod in pods}
    lost = [f"pod {key}: {why}" for key, why in lost_disks(problem).items() if key in placed_keys]
    notes += lost[:MAX_LOST_NOTES]
    return SolvedProblem(problem, plan, seconds, notes, overlaps, pools_with_types, tables)


def _planned(
    problem: Problem,
    placed: Placements,
    cluster: PlannedCluster,
    question: PlanQuestion,
    pools_with_types: PoolTypes,
    tables: TypeTables,
) -> Plan:
    """Plan for the pods that kube-scheduler does not place on a node that runs already."""
    if not placed:
        return _with_waits(problem, question, pools_with_types, tables)
    placed_keys = {pod.key for pods in placed.values() for pod in pods}
    waiting = [pod for pod in question.pods if pod.key not in placed_keys]
    open_problem = problem_of(cluster, waiting, pools_with_types, question.policy, placed, question.refused)
    open_problem = with_spot_scores(with_commitments(open_problem, question.coverage.remaining), question.scores_of)
    return with_placements(_with_waits(open_problem, question, pools_with_types, tables), placed)


def _with_waits(problem: Problem, question: PlanQuestion, pools_with_types: PoolTypes, tables: TypeTables) -> Plan:
    """Solve the problem, and hold back nodes that are far dearer than usual where NodePools ask for it."""
    pools = {pool.metadata.name: pool for pool, _ in pools_with_types}
    types = {pool.metadata.name: kinds for pool, kinds in pools_with_types}

    def solved(problem: Problem) -> Plan:
        plan = solve_with_buffers(problem, tables=tables)
        plan = with_refused_offerings(plan, problem.pods, problem.pools, types, question.refused)
        return with_types_without_image(plan, problem.pods, problem.pools, types)

    plan = solved(problem)
    prices = TypeChoiceExplainer(problem, types, partial(next_attempt_of, question.refused))
    if waits := dear_nodes(plan, pools, prices):
        second = solved(replace(problem, pods=elsewhere(problem.pods, waits)))
        plan, _ = held_back(second, problem.pods, waits, pools, prices)
    return without_dear_types(plan, pools, prices)


def sold(pools: Sequence[NodePool], cluster: PlannedCluster, question: PlanQuestion) -> PoolTypes:
    """Return the NodePools with the instance types that their classes can have."""
    return [(pool, _types_of(_class_of(pool, cluster), question)) for pool in pools]


def _types_of(node_class: EC2NodeClass, question: PlanQuestion) -> Sequence[InstanceType]:
    own = question.types_of(node_class) if question.types_of is not None else question.types
    types, reserved = in_zones_of(node_class, own), question.reserved
    if reserved is not None:
        types = with_reservations(types, node_class, reserved.places, reserved.claims)
    amis = node_class.status.amis
    return without_images(types, amis) if amis else types


def _class_of(pool: NodePool, cluster: PlannedCluster) -> EC2NodeClass:
    ec2_class = cluster.node_class(class_key(pool))
    assert ec2_class is not None  # usable_pools checked this
    return with_own_kubelet(ec2_class, pool.metadata.annotations)


def in_zones_of(node_class: EC2NodeClass, types: Sequence[InstanceType]) -> Sequence[InstanceType]:
    """Limit the types to offerings in the zones of the class's subnets.

    A class without resolved subnets has no limit.
    """
    zones = {subnet.zone for subnet in node_class.status.subnets}
    if not zones:
        return types
    return [replace(kind, offerings=tuple(o for o in kind.offerings if o.zone in zones)) for kind in types]


def price_of(labels_of_node: Mapping[str, str], types: Sequence[InstanceType]) -> float:
    """Hourly price in dollars of a node, looked up by its labels; 0 if the catalogue does not contain it."""
    name = labels_of_node.get(labels.INSTANCE_TYPE)
    zone, capacity_type = labels_of_node.get(labels.ZONE), labels_of_node.get(labels.CAPACITY_TYPE)
    for kind in types:
        if kind.name == name:
            for offering in kind.offerings:
                if (offering.zone, offering.capacity_type) == (zone, capacity_type):
                    return offering.price
    return 0.0
