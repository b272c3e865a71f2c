"""Builds a plan's claims from packed nodes: the types that each may still become, values for its open labels,
and the pods meant for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from tenon.kube.pod import Pod
from tenon.kube.requirements import IN, Requirement, Requirements
from tenon.resources import CPU, MEMORY, Resources
from tenon.scheduling.model import LATER_LABELS, PlannedClaim
from tenon.scheduling.offerings.commitments import commitment_of, covered_price, used_up_by
from tenon.scheduling.offerings.limits import COMMITMENT, RESERVATION, Limits, counts_nodes
from tenon.scheduling.offerings.template import State, Template
from tenon.scheduling.offerings.type_candidates import type_set
from tenon.scheduling.packing.bins import Bin, Load
from tenon.scheduling.packing.fleet import Fleet
from tenon.scheduling.reservations import is_reserved

MAX_TYPES = 600
"""The most instance types that one NodeClaim lists."""
_MAX_INT = 2**31 - 1


def claims_of(fleet: Fleet, handed_out: dict[int, int]) -> list[PlannedClaim]:
    """Return the fleet's nodes as claims. ``handed_out`` counts the pods of each class that already have a place."""
    claims = []
    template, limits = fleet.template, fleet.limits.copy(fleet.template.pool)
    lists: dict[tuple[int, int], _List] = {}
    others = _bins_of_others(fleet)
    for number, node in enumerate(fleet.bins):
        types = _shared_limit(template, node, limits, len(fleet.bins) - number, others)
        type_list = lists.get((id(node.state), types))
        if type_list is None:
            numbers = _listed(template, node, types)
            names = tuple(template.table.types[number].name for number in numbers)
            listed = types if len(numbers) < MAX_TYPES else type_set(numbers)
            type_list = lists[id(node.state), types] = _List(numbers[0], names, listed, _largest(template, listed))
        claims.append(_claim(template, node, type_list, _take_pods(node.load, handed_out)))
    return claims


@dataclass(frozen=True, slots=True)
class _List:
    """Types that claims list; identical nodes share one. Holds the cheapest type's number, the names, the set of types,
    and the most that any of the types has of each resource that a pool may limit.
    """

    cheapest: int
    names: tuple[str, ...]
    types: int
    largest: Resources


def _largest(template: Template, types: int) -> Resources:
    limits = sorted(template.pool.limits or {})
    limited = [name for name in limits if not counts_nodes(name) and not name.startswith(COMMITMENT)]
    return {name: template.table.largest_capacity(name, types) for name in dict.fromkeys((CPU, MEMORY, *limited))}


def _bins_of_others(fleet: Fleet) -> dict[str, int]:
    """By limit, how many nodes of other fleets share what is left of it. Nodes in reservations take nothing of it."""
    others: dict[str, int] = {}
    for other, name in fleet.sharing:
        if not is_reserved(other.template.pool):
            others[name] = others.get(name, 0) + len(other.bins)
    return others


def _shared_limit(
    template: Template, node: Bin, limits: Limits, unplanned_nodes: int, others: Mapping[str, int]
) -> int:
    """The types that a node may list within its share of what is left of the pool's limits."""
    if limits.unlimited or any(name.startswith(RESERVATION) for name in limits.remaining):
        return node.types
    fitting_types = (
        template.fitting(node.state, node.amounts) & node.state.types & ~template.blocked(node.state, node.ports)
    )
    own = limits.peak(node.types)
    share = limits.share(unplanned_nodes, others)
    types = limits.not_above(fitting_types, {name: amount + share[name] for name, amount in own.items()})
    limits.take({name: -amount for name, amount in own.items()}, nodes=0)
    limits.take(limits.peak(types), nodes=0)
    return types


def _listed(template: Template, node: Bin, types: int) -> list[int]:
    """The cheapest types, up to the most that a claim lists. Types that ``minValues`` need replace other ones."""
    ordered = template.by_price(node.state, types)
    if len(ordered) <= MAX_TYPES:
        return ordered
    selection = ordered[:MAX_TYPES]
    replaced = MAX_TYPES
    for number in ordered[MAX_TYPES:]:
        types = sum(1 << n for n in selection)
        if all(template.offered(node.state, types, key) >= min_values for key, min_values in template.wished.items()):
            break
        richer = _distinct_values(template, node, [*selection, number])
        if richer > _distinct_values(template, node, selection):
            while replaced > 1:
                replaced -= 1
                slimmer = [n for n in selection if n != ordered[replaced]]
                if _distinct_values(template, node, [*slimmer, number]) == richer:
                    selection = [*slimmer, number]
                    break
    return selection


def _distinct_values(template: Template, node: Bin, numbers: Sequence[int]) -> int:
    """How many distinct values the types have toward the pool's ``minValues``, up to each required number."""
    types = sum(1 << n for n in numbers)
    return sum(min(min_values, template.offered(node.state, types, key)) for key, min_values in template.wished.items())


def _take_pods(load: Load, handed_out: dict[int, int]) -> tuple[Pod, ...]:
    pods: list[Pod] = []
    for pod_class, count in load:
        origin = pod_class.origin
        start = handed_out.get(id(origin), 0)
        pods.extend(origin.pods[start : start + count])
        handed_out[id(origin)] = start + count
    return tuple(pods)


def _claim(template: Template, node: Bin, listed: _List, pods: tuple[Pod, ...]) -> PlannedClaim:
    cheapest = node.state.market.best[listed.cheapest]
    lowered = {
        key: offered
        for key, min_values in template.wished.items()
        if (offered := template.offered(node.state, listed.types, key)) < min_values
    }
    requirements = with_default_values(template, node.state.requirements, lowered, pods)
    state, before = node.state, node.state.requirements
    if state.daemons and any(requirements[key].members != before[key].members for key in requirements):
        # A label got its value only now. DaemonSets that require another value will not run here.
        state = template.state(requirements)
    commitment = commitment_of(template.pool)
    return PlannedClaim(
        pool=template.pool.name,
        pods=pods,
        instance_types=listed.names,
        requirements=Requirements({key: r for key, r in requirements.items() if key not in LATER_LABELS}),
        requests=_requests(template.table.names, node.amounts, state, listed.types),
        price=covered_price(cheapest.price) if commitment else cheapest.price,
        offering=cheapest.key,
        min_values_relaxed=bool(lowered),
        largest=listed.largest,
        commitment=commitment,
        committed=used_up_by(commitment, template.table, listed.types),
    )


def _requests(names: Sequence[str], amounts: Sequence[int], state: State, types: int) -> Resources:
    """Requests of a node's pods, plus the DaemonSets' requests on the listed type where they are largest."""
    overheads = [overhead for group_types, overhead in state.groups if group_types & types]
    max_overhead = [max(overhead_amounts) for overhead_amounts in zip(*overheads, strict=True)]
    summed = (own + extra for own, extra in zip(amounts, max_overhead, strict=True))
    return {name: units for name, units in zip(names, summed, strict=True) if units}


def with_default_values(
    template: Template, requirements: Requirements, lowered: Mapping[str, int], pods: Sequence[Pod]
) -> Requirements:
    """Return the requirements with lowered minValues, and a value for each of the pool's labels that must have one.

    kube-scheduler binds no pod that asks for such a label to a node without it. Of several listed values, it is the
    first, so that equal nodes have equal labels and can be launched together. If any number is allowed, it depends on
    the pool and its first pod, so that equal problems give equal plans.
    """
    changed = dict(requirements)
    for key, offered in lowered.items():
        changed[key] = _with_least(changed[key], offered)
    for key in sorted(template.requirements):
        requirement = changed[key]
        if requirement.may_be_absent or template.table.decides(key):
            continue
        if requirement.complement:
            value = _some_value(requirement, f"{template.pool.name}/{min(pod.uid or pod.key for pod in pods)}")
        else:
            value = requirement.values[0]
        changed[key] = requirement.intersection(Requirement.new(key, IN, (value,)))
    return Requirements(changed)


def _with_least(requirement: Requirement, least: int) -> Requirement:
    return Requirement(
        requirement.key,
        requirement.complement,
        requirement.members,
        gte=requirement.gte,
        lte=requirement.lte,
        min_values=least or None,
        may_be_absent=requirement.may_be_absent,
    )


def _some_value(requirement: Requirement, seed: str) -> str:
    """A whole number that the requirement allows. Equal seeds give equal numbers; different seeds mostly do not."""
    low = max(0, requirement.gte or 0)
    high = requirement.lte if requirement.lte is not None else low + _MAX_INT
    start = int.from_bytes(hashlib.sha256(f"{requirement.key}/{seed}".encode()).digest()[:8]) % (high - low + 1)
    span = min(high - low + 1, len(requirement.members) + 1)
    numbers = (str(low + (start + step) % (high - low + 1)) for step in range(span))
    # if the requirement excludes every number by name, it still allows another spelling, with leading zeros
    padded = (f"{'0' * zeros}{low}" for zeros in range(1, len(requirement.members) + 2))
    return next(value for value in chain(numbers, padded) if requirement.has(value))
