"""Turn a batch of pending pods into a plan: first onto nodes that there are, then onto the cheapest new ones.

Pure and deterministic: the same problem, in whatever order its parts come, gives the same plan.
"""

from __future__ import annotations

from collections.abc import Sequence

from tenon.resources import Resources
from tenon.scheduling import existing
from tenon.scheduling.daemons import read_daemons
from tenon.scheduling.explain import explain
from tenon.scheduling.limits import Limits
from tenon.scheduling.model import Plan, PlannedClaim, Pod, Problem
from tenon.scheduling.packing import Bin, Load
from tenon.scheduling.pod_classes import group, resource_names
from tenon.scheduling.sizing import Packing, pack
from tenon.scheduling.template import Template
from tenon.scheduling.type_table import TypeTable

MOST_TYPES = 600
"""Instance types that one NodeClaim lists at most."""


def solve(problem: Problem) -> Plan:
    """The plan for one batch. Each pod is in exactly one of its parts; pods are told apart by namespace and name."""
    refused = {pod.key: pod.unsupported for pod in problem.pods if pod.unsupported}
    pods = [pod for pod in problem.pods if not pod.unsupported]
    names = resource_names([*pods, *problem.daemons])
    classes = group(pods, names)
    placements, placed = existing.place(classes, problem.nodes, problem.pools, names)
    waiting: Load = [(pod_class, len(pod_class.pods) - done) for pod_class, done in zip(classes, placed, strict=True)]
    waiting = [(pod_class, count) for pod_class, count in waiting if count]

    handed_out = {id(pod_class): done for pod_class, done in zip(classes, placed, strict=True)}
    daemons = read_daemons(problem.daemons, names)
    claims: list[PlannedClaim] = []
    tried: list[tuple[Template, Limits]] = []
    tables: dict[int, TypeTable] = {}
    if waiting:
        for pool in sorted(problem.pools, key=lambda pool: (-pool.weight, pool.name)):
            table = tables.get(id(pool.instance_types)) or TypeTable(pool.instance_types, names)
            template = Template(pool, daemons, tables.setdefault(id(pool.instance_types), table))
            waiting, packing = _use(template, waiting)
            tried.append((template, packing.limits))
            claims += _claims(template, packing, handed_out)

    unschedulable = dict(refused)
    for pod_class, count in waiting:
        reason = explain(pod_class, tried)
        unschedulable.update((pod.key, reason) for pod in pod_class.pods[len(pod_class.pods) - count :])
    return Plan(tuple(claims), placements, {key: unschedulable[key] for key in sorted(unschedulable)})


def _use(template: Template, waiting: Load) -> tuple[Load, Packing]:
    """Pack what the pool can take; what still waits afterwards, in queue order."""
    suited: Load = []
    for pod_class, count in waiting:
        if pod_class.tolerates(template.pool.taints) and template.successors(template.start, pod_class):
            suited.append((pod_class, count))
    packing = pack(template, suited)
    left = {id(pod_class): count for pod_class, count in packing.left}
    packed = {id(pod_class) for pod_class, _ in suited}
    remaining = [(c, left.get(id(c), 0) if id(c) in packed else count) for c, count in waiting]
    return [(pod_class, count) for pod_class, count in remaining if count], packing


def _claims(template: Template, packing: Packing, handed_out: dict[int, int]) -> list[PlannedClaim]:
    """The packed nodes as claims; ``handed_out`` counts the pods of each class that have a place."""
    claims = []
    limits = packing.limits
    for number, node in enumerate(packing.bins):
        types = _shared_limit(template, node, limits, len(packing.bins) - number)
        claims.append(_claim(template, node, _listed(template, node, types), _take_pods(node.load, handed_out)))
    return claims


def _shared_limit(template: Template, node: Bin, limits: Limits, waiting: int) -> int:
    """The types that a node may list within its share of what the pool's limits leave."""
    if limits.unlimited:
        return node.types
    held = template.fitting(node.state, node.amounts) & node.state.types & ~template.blocked(node.state, node.ports)
    own = limits.peak(node.types)
    share = limits.share(waiting)
    types = limits.not_above(held, {name: amount + share[name] for name, amount in own.items()})
    limits.take({name: -amount for name, amount in own.items()}, nodes=0)
    limits.take(limits.peak(types), nodes=0)
    return types


def _listed(template: Template, node: Bin, types: int) -> list[int]:
    """The cheapest types up to the most that a claim lists, with those kept that ``minValues`` need."""
    ordered = template.by_price(node.state, types)
    if len(ordered) <= MOST_TYPES:
        return ordered
    chosen = ordered[:MOST_TYPES]
    replaced = MOST_TYPES
    for number in ordered[MOST_TYPES:]:
        if template.diverse(node.state, sum(1 << n for n in chosen)):
            break
        richer = _richness(template, node, [*chosen, number])
        if richer > _richness(template, node, chosen):
            while replaced > 1:
                replaced -= 1
                slimmer = [n for n in chosen if n != ordered[replaced]]
                if _richness(template, node, [*slimmer, number]) == richer:
                    chosen = [*slimmer, number]
                    break
    return chosen


def _richness(template: Template, node: Bin, numbers: Sequence[int]) -> int:
    """How many of the values that the pool's ``minValues`` ask for the types have."""
    types = sum(1 << n for n in numbers)
    return sum(
        min(least, template.table.values_of(key, types, node.state.requirements[key]))
        for key, least in template.least.items()
    )


def _take_pods(load: Load, handed_out: dict[int, int]) -> tuple[Pod, ...]:
    pods: list[Pod] = []
    for pod_class, count in load:
        start = handed_out[id(pod_class)]
        pods.extend(pod_class.pods[start : start + count])
        handed_out[id(pod_class)] = start + count
    return tuple(pods)


def _claim(template: Template, node: Bin, listed: Sequence[int], pods: tuple[Pod, ...]) -> PlannedClaim:
    price, type_name, zone, capacity_type = node.state.market.best[listed[0]]
    return PlannedClaim(
        pool=template.pool.name,
        pods=pods,
        instance_types=tuple(template.table.types[number].name for number in listed),
        requirements=node.state.requirements,
        requests=_requests(template, node, sum(1 << number for number in listed)),
        price=price,
        offering=(type_name, zone, capacity_type),
    )


def _requests(template: Template, node: Bin, types: int) -> Resources:
    """What the node's pods ask for, with the DaemonSets of the listed type that has the most of them."""
    overheads = [overhead for having, overhead in node.state.groups if having & types]
    most = [max(amounts) for amounts in zip(*overheads, strict=True)]
    summed = (own + extra for own, extra in zip(node.amounts, most, strict=True))
    return {name: units for name, units in zip(template.table.names, summed, strict=True) if units}
