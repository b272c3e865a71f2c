"""The rules by which a plan sizes nodes, beyond what Kubernetes requires, as far as a linear program can state them.

A plan counts a burstable type only as far as its CPU baseline carries the pods, adds a charge for each node, limits how
many pods of a group share a node, and spreads groups over zones. A bound without these rules is lower than any plan
that keeps them, so it makes a good plan look bad.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tenon.apis import labels
from tenon.kube.pod import Pod
from tenon.kube.requirements import Requirements
from tenon.resources import CPU, Resources
from tenon.scheduling.domains.topology_counts import least_per_domain
from tenon.scheduling.model import InstanceType, Plan, PlannedClaim, Pool, Problem
from tenon.scheduling.offerings import burstable
from tenon.scheduling.offerings.type_table import TypeTable, TypeTables
from tenon.scheduling.pods.relaxation import without_preferences
from tenon.scheduling.pods.topology import AreaRules, Topology

HostLimit = tuple[int, int]
"""A group of pods, by number, and the most of the pods with this limit that one node may have."""
MAX_HOST_LIMITS = 24
"""How many limits per node the bound considers: those that need the most nodes."""


@dataclass(frozen=True, slots=True)
class SizingRules:
    """What the bound of a plan's sizing cost has to respect."""

    by_baseline: frozenset[str] = frozenset()
    """The NodePools in which burstable types have room by their CPU baseline."""
    host_limits: Mapping[str, tuple[HostLimit, ...]] = field(default_factory=dict)
    """By the key of a pod."""
    zones: Mapping[str, str] = field(default_factory=dict)
    """The zone by the key of a pod, for as many pods of a group as any plan has in each zone."""

    def room(self, pool: Pool, instance_type: InstanceType, cpu: int) -> int:
        """The millicores of a node that count, if ``cpu`` are free for pods."""
        if pool.name not in self.by_baseline or not burstable.is_burstable(instance_type):
            return cpu
        return min(cpu, burstable.baseline_millicores(instance_type))


@dataclass(frozen=True, slots=True)
class ZoneSpread:
    """Equal pods that spread over zones, and the most by which the numbers of two zones may differ."""

    pods: tuple[Pod, ...]
    zones: tuple[str, ...]
    max_skew: int

    @property
    def least(self) -> int:
        """The pods that each zone has in any plan."""
        return least_per_domain(len(self.pods), len(self.zones), self.max_skew)

    @property
    def most(self) -> int:
        """The pods that a zone has at most: the emptiest zone has no more than an equal share."""
        return min(len(self.pods), len(self.pods) // len(self.zones) + self.max_skew)


def sizing_rules(problem: Problem, plan: Plan, tables: TypeTables | None = None) -> SizingRules:
    """Return the rules that the plan keeps, and with it every plan that the engine would compare with it."""
    type_tables = tables or TypeTables()
    pools = {pool.name: pool for pool in problem.pools}
    by_credits = {
        claim.pool
        for claim in plan.claims
        if _steady_price(claim, type_tables.any_of(pools[claim.pool].instance_types)) is None
    }
    return SizingRules(
        by_baseline=frozenset(pools) - by_credits,
        host_limits=_host_limits(problem, plan.unschedulable.keys() | plan.unreached),
        zones=_zones(problem, plan.unschedulable.keys() | plan.unreached),
    )


def sizing_cost(problem: Problem, plan: Plan, tables: TypeTables | None = None) -> float:
    """Return dollars an hour of a plan by which the engine compares it.

    Each node counts with the charge and with its cheapest type that is not burstable, or whose CPU baseline carries the
    node's pods. If it lists no such type, it counts with its price.
    """
    type_tables = tables or TypeTables()
    pools = {pool.name: pool for pool in problem.pools}
    prices = (
        claim.price
        if (steady := _steady_price(claim, type_tables.any_of(pools[claim.pool].instance_types))) is None
        else steady
        for claim in plan.claims
    )
    return sum(price + problem.node_charge for price in prices)


def _steady_price(claim: PlannedClaim, table: TypeTable) -> float | None:
    """The price of the cheapest listed type that sustains the pods' CPU requests; None if there is none."""
    listed = set(claim.instance_types)
    cpu = sum(pod.requests.get(CPU, 0) for pod in claim.pods)
    prices = [
        sale.price
        for number, sale in table.market(claim.requirements).best.items()
        if table.types[number].name in listed and _sustains(table.types[number], cpu)
    ]
    return min(prices, default=None)


def _sustains(instance_type: InstanceType, cpu: int) -> bool:
    return not burstable.is_burstable(instance_type) or cpu <= burstable.baseline_millicores(instance_type)


def _host_limits(problem: Problem, left_out: Iterable[str]) -> dict[str, tuple[HostLimit, ...]]:
    """The limits per node that pods state about a group that counts them, by the key of the pod."""
    out = frozenset(left_out)
    topology = Topology(problem)
    limits: dict[str, tuple[HostLimit, ...]] = {}
    counts: Counter[HostLimit] = Counter()
    compiled: dict[object, tuple[HostLimit, ...]] = {}
    for pod in problem.pods:
        part = topology.part(pod)
        if part is None or pod.key in out:
            continue
        key = (part, pod.required_terms, pod.tolerations)
        if key not in compiled:
            host = topology.compile(part, without_preferences(part.rules), pod.required_terms, pod.tolerations)[0]
            compiled[key] = tuple(dict.fromkeys(host.at_most)) if host is not None else ()
        if compiled[key]:
            limits[pod.key] = compiled[key]
            counts.update(compiled[key])
    ordered = sorted(counts, key=lambda limit: (-counts[limit] / max(1, limit[1]), limit))
    strictest = frozenset(ordered[:MAX_HOST_LIMITS])
    return {
        pod_key: considered
        for pod_key, pod_limits in limits.items()
        if (considered := tuple(limit for limit in pod_limits if limit in strictest and limit[1] > 0))
    }


def _zones(problem: Problem, left_out: Iterable[str]) -> dict[str, str]:
    """Give pods of equal groups that spread over zones the zones in which any plan has at least so many of them."""
    zones: dict[str, str] = {}
    for spread in zone_spreads(problem, left_out):
        if any(pod.key in zones for pod in spread.pods):
            continue
        for number, zone in enumerate(spread.zones):
            share = spread.pods[number * spread.least : (number + 1) * spread.least]
            zones.update(dict.fromkeys((pod.key for pod in share), zone))
    return zones


def zone_spreads(problem: Problem, left_out: Iterable[str]) -> Iterator[ZoneSpread]:
    """Yield the groups of equal pods that spread over zones.

    Existing nodes may be domains that no new node can reach, so a problem with such nodes has no such groups.
    """
    if problem.nodes:
        return
    out = frozenset(left_out)
    topology = Topology(problem)
    members: dict[int, list[Pod]] = {}
    rules: dict[int, tuple[AreaRules, Pod]] = {}
    for pod in problem.pods:
        part = topology.part(pod)
        if part is None:
            continue
        area = topology.compile(part, without_preferences(part.rules), pod.required_terms, pod.tolerations)[2]
        for group in part.counted:
            members.setdefault(group, []).append(pod)
        for spread in area.spreads if area is not None else ():
            if spread.key == labels.ZONE and spread.counts_itself and area is not None:
                rules.setdefault(spread.group, (area, pod))
    for group, (area, first) in sorted(rules.items()):
        one_kind = all(_kind(pod) == _kind(first) for pod in members[group])
        (max_skew, *others) = [spread.max_skew for spread in area.spreads if spread.key == labels.ZONE]
        honored = all(spread.honor_affinity for spread in first.rules.spreads if spread.hard)
        zones = _zones_of(problem, first)
        if not others and one_kind and honored and zones:
            yield ZoneSpread(tuple(pod for pod in members[group] if pod.key not in out), tuple(zones), max_skew)


def _kind(pod: Pod) -> tuple[Resources, tuple[Requirements, ...], object, object]:
    return pod.requests, pod.required_terms, pod.tolerations, pod.rules


def _zones_of(problem: Problem, pod: Pod) -> list[str]:
    """The zones in which some NodePool sells any type, and the pod's node affinity allows to run."""
    return sorted(
        {
            offering.zone
            for pool in problem.pools
            for instance_type in pool.instance_types
            for offering in instance_type.offerings
            if offering.available
            and pool.requirements.get(labels.ZONE).has(offering.zone)
            and (not pod.required_terms or any(term.get(labels.ZONE).has(offering.zone) for term in pod.required_terms))
        }
    )
