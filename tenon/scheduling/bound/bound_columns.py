"""The input of the lower bound: what pods request, and what can be bought for them.

It includes only what every plan must respect: requests, taints, node affinity, and DaemonSets that certainly run on the
node. Where a rule is uncertain, the input errs on the generous side. Otherwise the result would not be a lower bound.
With `SizingRules`, it also includes the rules by which a plan sizes nodes: a limit of a group's pods on one node is a
resource of which each node has so much, and a pod that needs a zone has a choice of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tenon.apis import labels
from tenon.kube.pod import Pod
from tenon.kube.requirements import IN, Requirement, Requirements
from tenon.kube.taints import Taint, Toleration
from tenon.resources import CPU, total
from tenon.scheduling.bound.sizing_rules import HostLimit, SizingRules
from tenon.scheduling.existing.existing_nodes import lasting_taints
from tenon.scheduling.model import OFFERING_KEYS, InstanceType, Node, Offering, Pool, Problem
from tenon.scheduling.offerings.commitments import covered_price, may_be_covered
from tenon.scheduling.offerings.type_table import TypeTable, TypeTables
from tenon.scheduling.pods.pod_classes import NO_TERM, Amounts

BITS = 61
"""The sum of all requests for a resource must fit into this many bits. If it does not, a larger unit counts: requests
are rounded down and room is rounded up, which can only lower the bound.
"""
NO_RULES = SizingRules()
UNLIMITED = 1 << 40
"""Room on an existing node for pods with a limit on how many share a node: the bound ignores the limit there."""
MAX_UNITS = 2**62
"""Room is capped to this value so that it fits into machine integers. All pods together request less."""
Reservation = tuple[str, str]
"""Pool and reservation, shared by the columns that use places of one reservation."""
Offer = tuple[str, ...]
"""What an offering determines: zone, capacity type, zone ID, reservation."""


@dataclass(frozen=True, slots=True)
class PodConstraints:
    """Where a kind of pod may run: its OR-ed terms and its tolerations."""

    terms: tuple[Requirements, ...]
    tolerations: tuple[Toleration, ...]

    def tolerates(self, taints: Iterable[Taint]) -> bool:
        """Whether the pods may run on nodes with these taints."""
        return all(t.effect == "PreferNoSchedule" or any(own.tolerates(t) for own in self.tolerations) for t in taints)


@dataclass(slots=True)
class Demand:
    """The pods to place: the number of pods per amounts and number of their choice."""

    names: tuple[str, ...]
    units: tuple[int, ...] = ()
    """The power of two, per resource, that one unit of its amounts stands for."""
    choices: list[PodConstraints] = field(default_factory=list)
    counts: dict[tuple[Amounts, int], int] = field(default_factory=dict)
    host_limits: tuple[HostLimit, ...] = ()
    """The limits on how many pods share a node. The amounts of a pod end with 1 for each limit that it has, or 0."""

    @property
    def width(self) -> int:
        """How many amounts a pod or a node has."""
        return len(self.names) + len(self.host_limits)


@dataclass(frozen=True, slots=True)
class Column:
    """A way to get a node: its room for pods, the choices that it is open to (one bit each), and its price."""

    room: Amounts
    open_to: int
    price: float
    reservation: Reservation | None = None


def read_demand(pods: Iterable[Pod], rules: SizingRules = NO_RULES) -> Demand:
    """Count the pods by what they request and where they may run."""
    listed = list(pods)
    requests = total(pod.requests for pod in listed)
    names = tuple(sorted(name for name, units in requests.items() if units > 0))
    host_limits = tuple(sorted({limit for limits in rules.host_limits.values() for limit in limits}))
    units = tuple(max(0, requests[name].bit_length() - BITS) for name in names)
    demand = Demand(names, units, host_limits=host_limits)
    numbers: dict[PodConstraints, int] = {}
    for pod in listed:
        constraints = _constraints(pod, rules.zones.get(pod.key))
        key = (_amounts(demand, pod, rules), numbers.setdefault(constraints, len(numbers)))
        demand.counts[key] = demand.counts.get(key, 0) + 1
    demand.choices.extend(numbers)
    return demand


def kind_of(demand: Demand, pod: Pod, rules: SizingRules) -> tuple[Amounts, int]:
    """Return the kind that a pod of the demand is counted as."""
    return _amounts(demand, pod, rules), demand.choices.index(_constraints(pod, rules.zones.get(pod.key)))


def _amounts(demand: Demand, pod: Pod, rules: SizingRules) -> Amounts:
    own_limits = rules.host_limits.get(pod.key, ())
    return (
        *(pod.requests.get(name, 0) >> unit for name, unit in zip(demand.names, demand.units, strict=True)),
        *(int(limit in own_limits) for limit in demand.host_limits),
    )


def to_buy(
    problem: Problem, demand: Demand, tables: TypeTables, rules: SizingRules = NO_RULES
) -> tuple[list[Column], dict[Reservation, int]]:
    """Return the ways to buy a node that some pod may use, and the number of places in each reservation."""
    cheapest: dict[tuple[Amounts, int, Reservation | None], float] = {}
    places: dict[Reservation, int] = {}
    cpu = demand.names.index(CPU) if CPU in demand.names else None
    nothing = (0,) * len(demand.names)
    for pool in problem.pools:
        table = tables.of(pool.instance_types, demand.names)
        own = pool.of_nodes
        opened = _opened(pool, own, table, demand.choices)
        daemons = [daemon for daemon in problem.daemons if _constraints(daemon).tolerates(pool.taints)]
        for number, instance_type in enumerate(table.types):
            is_covered = may_be_covered(pool, instance_type)
            rooms: dict[Amounts, Amounts] = {}  # by what DaemonSets take: offerings of a type rarely differ in it
            for offering in instance_type.offerings:
                by_choice = opened[offering.values] if offering.available else ()
                open_to = 0
                for choice, types in by_choice:
                    open_to |= (types >> number & 1) << choice
                if not open_to:
                    continue
                daemon_requests = nothing
                if daemons:
                    daemon_requests = _daemon_requests(own, instance_type, offering, daemons, demand.names)
                room = rooms.get(daemon_requests)
                if room is None:
                    free = [a - b for a, b in zip(table.room[number], daemon_requests, strict=True)]
                    if cpu is not None:
                        free[cpu] = rules.room(pool, instance_type, free[cpu])
                    room = rooms[daemon_requests] = (
                        *_room(free, demand.units),
                        *(most for _, most in demand.host_limits),
                    )
                reservation = (pool.name, offering.reservation_id) if offering.reservation_id else None
                if reservation:
                    places[reservation] = max(places.get(reservation, 0), offering.reservation_capacity)
                key = (room, open_to, reservation)
                price = _least_price(offering) if is_covered else offering.price
                if key not in cheapest or price < cheapest[key]:
                    cheapest[key] = price
    columns = [
        Column(room, open_to, price, column_reservation)
        for (room, open_to, column_reservation), price in sorted(cheapest.items(), key=repr)
    ]
    return [column for column in columns if min(column.room, default=0) >= 0], places


def _least_price(offering: Offering) -> float:
    """Return the least that a covered node may cost. How much is left of a commitment does not matter to a bound."""
    return covered_price(offering.price) if offering.capacity_type == labels.ON_DEMAND else offering.price


def existing(problem: Problem, demand: Demand) -> list[Column]:
    """The existing and in-flight nodes, at no cost."""
    startup = {pool.name: pool.startup_taints for pool in problem.pools}
    columns = []
    for node in problem.nodes:
        if node.closed:
            continue
        taints = lasting_taints(node, startup.get(node.labels.get(labels.NODEPOOL, ""), ()))
        free = {name: units - node.used.get(name, 0) for name, units in node.allocatable.items()}
        open_to = sum(
            1 << number
            for number, choice in enumerate(demand.choices)
            if choice.tolerates(taints) and any(_may_meet(node, term) for term in choice.terms)
        )
        if open_to:
            free_amounts = [max(0, free.get(name, 0)) for name in demand.names]
            host_room = (UNLIMITED,) * len(demand.host_limits)
            columns.append(Column((*_room(free_amounts, demand.units), *host_room), open_to, 0.0))
    return columns


def _opened(
    pool: Pool, own: Requirements, table: TypeTable, choices: Sequence[PodConstraints]
) -> Mapping[Offer, list[tuple[int, int]]]:
    """Map each offer to the choices that may use it, by number, each with the types that it may use."""
    offers = {offering.values: offering for instance_type in table.types for offering in instance_type.offerings}
    opened: dict[Offer, list[tuple[int, int]]] = {offer: [] for offer in offers}
    for number, choice in enumerate(choices):
        if not choice.tolerates(pool.taints):
            continue
        together = [met for term in choice.terms if (met := _combined(own, term, table.known_labels)) is not None]
        allowed = [(met, table.allowing(met)) for met in together]
        for offer, offering in offers.items():
            types = 0
            for met, positions in allowed:
                types |= positions if _is_available(offering, met) else 0
            if types:
                opened[offer].append((number, types))
    return opened


def _combined(own: Requirements, term: Requirements, known_keys: frozenset[str]) -> Requirements | None:
    """The pool's requirements with a pod's; None if they contradict. A label that neither defines is missing."""
    if own.conflict(term, known_keys) is not None or any(r.contradicts() for r in own.values()):
        return None
    met = own.with_(Requirements.of(*(r for key, r in term.items() if key in own or key in known_keys)))
    return None if any(met[key].contradicts() for key in met) else met


def _is_available(offering: Offering, requirements: Requirements) -> bool:
    values = zip(OFFERING_KEYS, offering.values, strict=True)
    constraints = [(requirements[key], value) for key, value in values if key in requirements]
    return all(r.has(value) if value else r.may_be_absent for r, value in constraints)


def _daemon_requests(
    own: Requirements, instance_type: InstanceType, offering: Offering, daemons: Sequence[Pod], names: tuple[str, ...]
) -> Amounts:
    """What DaemonSets take that certainly run on every such node, whatever values its open labels get."""
    offer_labels = {key: value for key, value in zip(OFFERING_KEYS, offering.values, strict=True) if value}
    node_requirements = own.with_(instance_type.requirements)
    node_requirements = node_requirements.with_(
        Requirements.from_labels({**offer_labels, labels.INSTANCE_TYPE: instance_type.name})
    )
    sure = [
        daemon
        for daemon in daemons
        if not daemon.volume_terms
        and any(
            all(_certainly_meets(node_requirements, r) for r in term.values()) for term in _constraints(daemon).terms
        )
    ]
    return tuple(sum(daemon.requests.get(name, 0) for daemon in sure) for name in names)


def _certainly_meets(node_requirements: Requirements, requirement: Requirement) -> bool:
    if requirement.key not in node_requirements:
        return requirement.may_be_absent and requirement.key not in labels.WELL_KNOWN
    mine = node_requirements[requirement.key]
    if mine.may_be_absent and not requirement.may_be_absent:
        return False
    if not mine.complement:
        return all(map(requirement.has, mine.members))
    met = mine.intersection(requirement)
    return (met.complement, met.members, met.gte, met.lte) == (mine.complement, mine.members, mine.gte, mine.lte)


def _may_meet(node: Node, term: Requirements) -> bool:
    node_requirements = Requirements.from_labels(
        {labels.ALIASES.get(key, key): value for key, value in node.labels.items()}
    )
    if node.requirements is None:
        return all(
            node_requirements[key].overlaps(r) if key in node_requirements else r.may_be_absent
            for key, r in term.items()
        )
    node_requirements = node.requirements.with_(node_requirements)
    return all(key not in node_requirements or node_requirements[key].overlaps(r) for key, r in term.items())


def _constraints(pod: Pod, zone: str | None = None) -> PodConstraints:
    terms = pod.required_terms or NO_TERM
    if zone is not None:
        in_zone = Requirements.of(Requirement.new(labels.ZONE, IN, (zone,)))
        terms = tuple(term.with_(in_zone) for term in terms)
    return PodConstraints(terms, pod.tolerations)


def _room(amounts: Iterable[int], units: Iterable[int]) -> Amounts:
    return tuple(max(-1, min(MAX_UNITS, -(-amount >> unit))) for amount, unit in zip(amounts, units, strict=True))
