"""What a bound over whole nodes knows of a plan: kinds of pods, and the ways to buy a node for them.

It is the input of `tenon.scheduling.bound.lower_bound`, which knows the rules by which a plan sizes nodes, with what
that bound has no use for: what a node uses of its NodePool's limits, how many pods NodePools of higher weight hold, and
the most that a zone may have of pods that spread.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np
import numpy.typing as npt

from tenon.errors import TenonError
from tenon.kube.pod import Pod
from tenon.scheduling.bound.bound_columns import Column, Demand, kind_of, read_demand, to_buy
from tenon.scheduling.bound.sizing_rules import SizingRules, ZoneSpread, sizing_rules, zone_spreads
from tenon.scheduling.model import InstanceType, Plan, Pool, Problem
from tenon.scheduling.offerings.limits import counts_nodes
from tenon.scheduling.offerings.type_table import TypeTables
from tenon.scheduling.pods.pod_classes import Amounts

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


Kind = tuple[Amounts, int]


class UnknownRulesError(TenonError):
    """A problem has what the bound over whole nodes does not know."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Pods that are divided among zones."""

    pods: int
    zones: tuple[str, ...]
    classes: tuple[int | None, ...]
    """Their class in each zone; None where no node can hold them."""
    max_skew: int
    most: int
    """How many of them a zone has at most."""


@dataclass(frozen=True, slots=True)
class Purchases:
    """What has a place in a plan, and what may be bought for it."""

    requests: Integers
    """What a pod of each class (rows) takes of each resource. Limits of pods on a node are resources."""
    counts: Integers
    """The pods of each class, without those that spread over zones."""
    spreads: tuple[Spread, ...]
    room: Integers
    """What a node of each option (rows) has of each resource."""
    cost: Floats
    """Dollars an hour of each option, with the charge for a node."""
    fits: Flags
    """Whether a node of each option (rows) may hold a pod of each class."""
    usage: Integers
    """What a node of each option (rows) uses of each limit."""
    limits: Integers
    preferred: Flags
    """Whether each option (rows) counts for each weight of NodePools (columns)."""
    least: Integers
    """How many pods the NodePools of each weight, and of higher ones, hold at least."""

    @property
    def spreading(self) -> Integers:
        """The most pods of each class that spread over zones."""
        most = np.zeros_like(self.counts)
        for spread in self.spreads:
            for number in spread.classes:
                if number is not None:
                    most[number] += spread.most
        return most

    @property
    def most(self) -> Integers:
        """The most pods of each class that any plan has."""
        return self.counts + self.spreading

    @property
    def digest(self) -> str:
        """Identifies the pods, rules and prices. A bound holds for every plan with the same ones."""
        arrays = (getattr(self, name) for name in self.__slots__ if name != "spreads")
        text = repr([[array.shape, array.tolist()] for array in arrays] + [self.spreads])
        return sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Members:
    """The pods that are counted."""

    of_classes: tuple[tuple[Pod, ...], ...]
    """Of each class, without those that spread over zones."""
    of_spreads: tuple[tuple[Pod, ...], ...]


def purchases_of(problem: Problem, plan: Plan) -> tuple[Purchases, Members]:
    """Return what plans for the same pods may buy that keep the rules of this one, and the pods.

    Raises:
        UnknownRulesError: the problem has existing nodes or capacity reservations.
    """
    if problem.nodes:
        raise UnknownRulesError("the bound over whole nodes knows no existing nodes: use lower_bound_of_sizing")
    left_out = plan.unschedulable.keys() | plan.unreached
    tables = TypeTables()
    demand, rules, spreads, others = _demand(problem, left_out, sizing_rules(problem, plan, tables))
    least = _least(problem, plan)
    limits = [(pool, name) for pool in problem.pools for name in sorted(pool.limits or {})]
    columns: list[Column] = []
    usage: list[list[int]] = []
    preferred: list[list[bool]] = []
    for pool in problem.pools:
        for used, part in _by_usage(pool):
            bought, reserved = to_buy(replace(problem, pools=[part]), demand, tables, rules)
            if reserved:
                raise UnknownRulesError("the bound over whole nodes knows no reservations: use lower_bound_of_sizing")
            columns += bought
            usage += [[used[name] if owner is pool else 0 for owner, name in limits]] * len(bought)
            preferred += [[pool.weight >= weight for weight in least]] * len(bought)
    kinds = list(demand.counts)
    requests = np.array([amounts for amounts, _ in kinds], dtype=np.int64).reshape(len(kinds), demand.width)
    room = np.array([column.room for column in columns], dtype=np.int64).reshape(len(columns), demand.width)
    every = Purchases(
        requests=requests,
        counts=np.array(list(demand.counts.values()), dtype=np.int64),
        spreads=tuple(
            Spread(len(spread.pods), spread.zones, tuple(map(kinds.index, in_zones)), spread.max_skew, spread.most)
            for spread, in_zones in spreads
        ),
        room=room,
        cost=np.array([column.price for column in columns]) + problem.node_charge,
        fits=_fits(columns, [choice for _, choice in kinds], requests, room),
        usage=np.array(usage, dtype=np.int64).reshape(len(columns), len(limits)),
        limits=np.array([(pool.limits or {})[name] - pool.usage.get(name, 0) for pool, name in limits], dtype=np.int64),
        preferred=np.array(preferred, dtype=bool).reshape(len(columns), len(least)),
        least=np.array(list(least.values()), dtype=np.int64),
    )
    purchases, classes = _without_unplaceable(replace(every, counts=every.counts - every.spreading))
    of_kinds: dict[Kind, list[Pod]] = defaultdict(list)
    for pod in others:
        of_kinds[kind_of(demand, pod, rules)].append(pod)
    members = Members(
        tuple(tuple(of_kinds[kinds[number]]) for number in classes), tuple(spread.pods for spread, _ in spreads)
    )
    return _without_worse(purchases), members


def _demand(
    problem: Problem, left_out: Set[str], rules: SizingRules
) -> tuple[Demand, SizingRules, list[tuple[ZoneSpread, list[Kind]]], list[Pod]]:
    """Count the pods. Those that spread count in every zone with the most that the zone may have.

    Return the demand, the rules that it was counted by, the spreads with the kind of their pods in each zone, and the
    pods that do not spread.
    """
    spreads: list[ZoneSpread] = []
    spreading: set[str] = set()
    for spread in zone_spreads(problem, left_out):
        keys = {pod.key for pod in spread.pods}
        if spread.pods and not keys & spreading and not any(pod.unsupported for pod in spread.pods):
            spreads.append(spread)
            spreading |= keys
    host_limits, zones = dict(rules.host_limits), {}
    others = [
        pod for pod in problem.pods if not pod.unsupported and pod.key not in left_out and pod.key not in spreading
    ]
    pods, in_zones = list(others), []
    for number, spread in enumerate(spreads):
        first = spread.pods[0]
        for zone in spread.zones:
            copies = [replace(first, name=f"{number}/{zone}/{copy}") for copy in range(spread.most)]
            zones.update(dict.fromkeys((pod.key for pod in copies), zone))
            host_limits.update(dict.fromkeys((pod.key for pod in copies), host_limits.get(first.key, ())))
            pods += copies
            in_zones.append((spread, copies[0]))
    counted = replace(rules, host_limits=host_limits, zones=zones)
    demand = read_demand(pods, counted)
    kinds: dict[int, list[Kind]] = defaultdict(list)
    for spread, pod in in_zones:
        kinds[id(spread)].append(kind_of(demand, pod, counted))
    return demand, counted, [(spread, kinds[id(spread)]) for spread in spreads], others


def _by_usage(pool: Pool) -> Iterator[tuple[dict[str, int], Pool]]:
    """Divide a NodePool by what its types use of its limits."""
    names = sorted(pool.limits or {})
    if not names:
        yield {}, pool
        return
    parts: dict[tuple[int, ...], list[InstanceType]] = defaultdict(list)
    for instance_type in pool.instance_types:
        used = tuple(1 if counts_nodes(name) else instance_type.capacity.get(name, 0) for name in names)
        parts[used].append(instance_type)
    for used, types in sorted(parts.items()):
        yield dict(zip(names, used, strict=True)), replace(pool, instance_types=tuple(types))


def _least(problem: Problem, plan: Plan) -> dict[int, int]:
    """How many pods the plan has on NodePools of each weight or a higher one, but the lowest."""
    weights = {pool.name: pool.weight for pool in problem.pools}
    return {
        weight: sum(len(claim.pods) for claim in plan.claims if weights[claim.pool] >= weight)
        for weight in sorted(set(weights.values()), reverse=True)[:-1]
    }


def _fits(columns: Sequence[Column], choices: Sequence[int], requests: Integers, room: Integers) -> Flags:
    fits = np.array([[column.open_to >> choice & 1 for choice in choices] for column in columns], dtype=bool)
    fits = fits.reshape(len(columns), len(choices))
    for resource in range(requests.shape[1]):
        fits &= requests[None, :, resource] <= room[:, None, resource]
    return fits


def _without_unplaceable(every: Purchases) -> tuple[Purchases, list[int]]:
    """Drop options that hold nothing or are beyond a limit, and classes that no option holds.

    Return the numbers of the other classes too.
    """
    within = (every.usage <= every.limits) | (every.usage == 0)
    options = np.flatnonzero(every.fits.any(axis=1) & within.all(axis=1))
    classes = np.flatnonzero(every.fits[options].any(axis=0))
    number = {before: after for after, before in enumerate(classes.tolist())}
    spreads = tuple(
        replace(spread, classes=tuple(number.get(-1 if old is None else old) for old in spread.classes))
        for spread in every.spreads
    )
    every = replace(every, requests=every.requests[classes], counts=every.counts[classes], spreads=spreads)
    every = replace(every, limits=np.maximum(every.limits, 0))  # a NodePool beyond its limit has nothing left
    return _some(replace(every, fits=every.fits[:, classes]), options), classes.tolist()


def _some(every: Purchases, options: Integers) -> Purchases:
    names = ("room", "cost", "fits", "usage", "preferred")
    return replace(every, **{name: getattr(every, name)[options] for name in names})


def _without_worse(every: Purchases) -> Purchases:
    """Drop each option if another one holds the same pods, costs no more, and uses no more of any limit."""
    # room beyond what all pods that may be on the node request is no advantage
    every = replace(
        every, room=np.minimum(every.room, every.fits.astype(np.int64) @ (every.requests * every.most[:, None]))
    )
    price = np.round(every.cost * 1e9).astype(np.int64)
    goods = np.hstack([every.room, every.fits, every.preferred, -every.usage, -price[:, None]])
    best: list[int] = []
    for option in np.lexsort((-every.room.sum(axis=1), -every.fits.sum(axis=1), price)).tolist():
        if not (goods[best] >= goods[option]).all(axis=1).any():
            best.append(option)
    return _some(every, np.array(sorted(best), dtype=np.int64))
