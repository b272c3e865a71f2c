"""Names the instance types that a NodePool or a pod could use if an image of the EC2NodeClass booted them.

Plans leave these types out. Without this, the reason of a pod would only say that no type fits it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tenon.apis import labels
from tenon.ec2.types.bootable_types import architectures_of, sentence
from tenon.kube.node_affinity import accepts_pool
from tenon.kube.pod import Pod
from tenon.kube.pool_reasons import Clause, Obstacle, ObstacleKind
from tenon.kube.requirements import Requirements
from tenon.provisioning.pool_market import MAX_KINDS, PoolMarket, kind_of
from tenon.resources import fits
from tenon.scheduling.model import InstanceType, Offering, Plan, Pool

REMEDY = "select one that does in its amiSelectorTerms"
_NODE_CLASS = f"{labels.AWS_GROUP}/ec2nodeclass"
_OF_TYPES = frozenset({ObstacleKind.REQUIREMENTS, ObstacleKind.REQUESTS})
"""The obstacles that further types of the NodePool remove."""


def is_sold(kind: InstanceType, requirements: Requirements, offerings: Iterable[Offering]) -> bool:
    """True if a node with these requirements may be of this type, and have one of these offerings of it."""
    if not kind.requirements.intersects(requirements):
        return False
    zones, capacity_types = requirements.get(labels.ZONE), requirements.get(labels.CAPACITY_TYPE)
    return any(zones.has(offer.zone) and capacity_types.has(offer.capacity_type) for offer in offerings)


def image_obstacle(
    node_class: str, types: Sequence[InstanceType], wanted_types: Iterable[InstanceType]
) -> tuple[Obstacle, ...]:
    """Say that no image boots the wanted ones of a class's types; empty if there are none."""
    not_booted = list(wanted_types)
    if not not_booted:
        return ()
    architectures = architectures_of(kind.requirements for kind in types if kind.has_image)
    return (Obstacle(ObstacleKind.NODEPOOL, f"{sentence(node_class, not_booted, architectures)}: {REMEDY}"),)


def allowed_without_image(types: Iterable[InstanceType], requirements: Requirements) -> list[InstanceType]:
    """Return the types without an image that a NodePool with these requirements allows."""
    return [kind for kind in types if not kind.has_image and is_sold(kind, requirements, kind.offerings)]


def with_types_without_image(
    plan: Plan, pods: Iterable[Pod], pools: Iterable[Pool], types_by_pool: Mapping[str, Sequence[InstanceType]]
) -> Plan:
    """Add, to what a NodePool lacks for a pod without a place, that no image boots types that the pod could use.

    It is added only where such a type would help: neither a limit nor a rule between pods keeps the pod off, and EC2
    refuses none of the other types that would do. A NodePool that has no type at all says it in `Pool.lacking`.

    Args:
        plan: the plan.
        pods: the pods of the plan.
        pools: the NodePools that it could buy from.
        types_by_pool: for each NodePool all instance types of its class.
    """
    if not plan.unschedulable:
        return plan
    markets = [
        (PoolMarket(pool, types), not_booted)
        for pool in pools
        if not pool.lacking and (types := types_by_pool.get(pool.name, ()))
        if (not_booted := allowed_without_image(types, pool.requirements))
    ]
    if not markets:
        return plan
    waiting = [(pod, kind_of(pod)) for pod in pods if pod.key in plan.unschedulable and not pod.unsupported]
    kinds: dict[object, Pod] = {}
    for pod, kind in waiting:
        if len(kinds) < MAX_KINDS:
            kinds.setdefault(kind, pod)
    obstacles = {
        (kind, market.pool.name): image_obstacle(
            market.pool.labels.get(_NODE_CLASS, ""), market.types, _usable(market, not_booted, pod)
        )
        for kind, pod in kinds.items()
        for market, not_booted in markets
        if accepts_pool(pod.required_terms, market.pool.name)
    }
    unschedulable = dict(plan.unschedulable)
    for pod, kind in waiting:
        for market, _ in markets:
            own = obstacles.get((kind, market.pool.name), ())
            clause = unschedulable[pod.key].clause_of(market.pool.name) if own else None
            if clause is not None and _is_about_types(clause):
                unschedulable[pod.key] = unschedulable[pod.key].with_clause(replace(clause, refused=own))
    return replace(plan, unschedulable=unschedulable)


def _usable(market: PoolMarket, kinds: Iterable[InstanceType], pod: Pod) -> list[InstanceType]:
    """The types that the pod could use if an image booted them."""
    node_requirements = market.node_requirements(pod)
    return [
        kind
        for kind in (kinds if node_requirements else ())
        if fits(pod.requests, kind.allocatable)
        and market.is_within_limits(kind)
        and any(is_sold(kind, requirements, kind.offerings) for requirements in node_requirements)
    ]


def _is_about_types(clause: Clause) -> bool:
    return not clause.refused and all(obstacle.kind in _OF_TYPES for obstacle in clause.obstacles)
