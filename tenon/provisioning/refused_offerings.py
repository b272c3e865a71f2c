"""Names what EC2 refuses where a NodePool or a pod finds no instance type because of that.

Plans avoid for some minutes what EC2 refused. Without this, the reason of a pod would only say that no type fits it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from tenon.kube.node_affinity import accepts_pool
from tenon.kube.offerings import OfferingKey
from tenon.kube.pod import Pod
from tenon.kube.pool_reasons import Obstacle
from tenon.provisioning.pool_market import MAX_KINDS, PoolMarket, kind_of
from tenon.provisioning.refused_types import Refused, RefusedType, obstacles_of, refused_types_of
from tenon.resources import fits
from tenon.scheduling.engine import solve
from tenon.scheduling.model import InstanceType, Plan, Pool, Problem


def with_refused_offerings(
    plan: Plan,
    pods: Iterable[Pod],
    pools: Iterable[Pool],
    types_by_pool: Mapping[str, Sequence[InstanceType]],
    refused: Refused,
) -> Plan:
    """Add, to what each NodePool lacks for a pod without a place, what EC2 refuses that the pod could use.

    An offering counts if the requests of the pod alone fit on it, and its capacity into the limits of the NodePool:
    what DaemonSets need is left out of account. A NodePool that has no type at all says what EC2 refuses in
    `Pool.lacking` already. A pod that could use none of it gets instead what keeps it off such a NodePool in any case:
    capacity that comes back would not help it.

    Args:
        plan: the plan.
        pods: the pods of the plan.
        pools: the NodePools that it could buy from.
        types_by_pool: for each NodePool all instance types, with what EC2 refused marked as unavailable.
        refused: what EC2 refused.
    """
    if not refused or not plan.unschedulable:
        return plan
    markets = [
        _Market(pool, types_by_pool.get(pool.name, ()), refused_types)
        for pool in pools
        if (refused_types := refused_types_of(types_by_pool.get(pool.name, ()), refused))
    ]
    waiting = [(pod, kind_of(pod)) for pod in pods if pod.key in plan.unschedulable and not pod.unsupported]
    kinds: dict[object, Pod] = {}
    for pod, kind in waiting:
        if len(kinds) < MAX_KINDS:
            kinds.setdefault(kind, pod)
    refusals: dict[object, dict[str, tuple[Obstacle, ...]]] = {kind: {} for kind in kinds}
    obstacles: dict[object, dict[str, tuple[Obstacle, ...]]] = {kind: {} for kind in kinds}
    for market in markets:
        accepted = {kind: pod for kind, pod in kinds.items() if accepts_pool(pod.required_terms, market.pool.name)}
        own_refusals = {kind: obstacles_of(market.refusals(pod), refused) for kind, pod in accepted.items()}
        if not market.pool.lacking:
            for kind, own in own_refusals.items():
                refusals[kind][market.pool.name] = own
        else:
            kept_off = {pod.key: kind for kind, pod in accepted.items() if not own_refusals[kind]}
            for key, own in market.obstacles([accepted[kind] for kind in kept_off.values()]).items():
                obstacles[kept_off[key]][market.pool.name] = own
    lacking = {market.pool.name: market.pool.lacking for market in markets}
    unschedulable = dict(plan.unschedulable)
    for pod, kind in waiting:
        for name, own in refusals.get(kind, {}).items():
            if (clause := unschedulable[pod.key].clause_of(name)) is not None:
                unschedulable[pod.key] = unschedulable[pod.key].with_clause(replace(clause, refused=own))
        for name, own in obstacles.get(kind, {}).items():
            clause = unschedulable[pod.key].clause_of(name)
            if clause is not None and set(lacking[name]) <= set(clause.obstacles):
                unschedulable[pod.key] = unschedulable[pod.key].with_clause(replace(clause, obstacles=own))
    return replace(plan, unschedulable=unschedulable)


def refused_for(
    unschedulable: Container[str],
    pods: Iterable[Pod],
    pools: Iterable[Pool],
    types_by_pool: Mapping[str, Sequence[InstanceType]],
    refused: Refused,
) -> frozenset[OfferingKey]:
    """Return which of the refusals are about offerings that pods without a place could use.

    Args:
        unschedulable: the keys of these pods.
        pods: the pods of the plan.
        pools: the NodePools that it could buy from.
        types_by_pool: for each NodePool all instance types, with what EC2 refused marked as unavailable.
        refused: the refusals in question.
    """
    waiting = [pod for pod in pods if pod.key in unschedulable and not pod.unsupported] if refused else []
    if not waiting:
        return frozenset()
    markets = [
        _Market(pool, types, refused_types)
        for pool in pools
        if (types := types_by_pool.get(pool.name, ())) and (refused_types := refused_types_of(types, refused))
    ]
    kinds = dict(zip(map(kind_of, waiting), waiting, strict=True))
    return frozenset(
        key
        for pod in list(kinds.values())[:MAX_KINDS]
        for market in markets
        if accepts_pool(pod.required_terms, market.pool.name)
        for key in market.refusals(pod)
    )


class _Market(PoolMarket):
    """A NodePool with the types of which EC2 refuses something."""

    def __init__(self, pool: Pool, types: Sequence[InstanceType], refused_types: Sequence[RefusedType]) -> None:
        super().__init__(pool, types)
        self._refused_types = refused_types

    def refusals(self, pod: Pod) -> Iterator[OfferingKey]:
        """Yield the refusals of the offerings that the pod could use."""
        node_requirements = self.node_requirements(pod)
        for refused_type in self._refused_types if node_requirements else ():
            if fits(pod.requests, refused_type.room) and self.is_within_limits(refused_type.kind):
                for requirements in node_requirements:
                    yield from refused_type.refusals(requirements)

    def obstacles(self, pods: Sequence[Pod]) -> dict[str, tuple[Obstacle, ...]]:
        """Say why nodes of the pool could not take the pods even if EC2 refused nothing, by the key of the pod.

        A pod that the engine would place then is left out.
        """
        kinds = [
            replace(kind, offerings=tuple(replace(offering, available=True) for offering in kind.offerings))
            for kind in self.types
            if kind.has_image
        ]
        allowed = [kind for kind in kinds if kind.requirements.intersects(self.pool.requirements)]
        if not pods or not allowed:
            return {}
        plan = solve(Problem(pods=pods, pools=[replace(self.pool, instance_types=allowed, lacking=())]))
        clauses = {key: reason.clause_of(self.pool.name) for key, reason in plan.unschedulable.items()}
        return {key: clause.obstacles for key, clause in clauses.items() if clause is not None}
