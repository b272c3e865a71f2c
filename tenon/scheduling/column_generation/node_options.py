"""The ways to buy a node for a load, as arrays with one row for each pair of a state and a type.

A state is what some kinds of pods require of their node, such as a zone or an architecture. Pods that require less may
share the node, so that the rows of a state are open to several kinds. Rules about pods on one node (anti-affinity,
host ports, the share of a workload) become resources of which each node has a fixed amount.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from tenon.scheduling.offerings.limits import Limits, counts_nodes
from tenon.scheduling.offerings.template import SPOT_FLEXIBILITY, State, Template
from tenon.scheduling.offerings.type_candidates import Floats, Numbers, TypeCandidates, positions
from tenon.scheduling.packing.bins import Load
from tenon.scheduling.pods.hostname_rules import UNBOUNDED
from tenon.scheduling.pods.pod_classes import PodClass

Flags = npt.NDArray[np.bool_]

MAX_STATES = 32
"""How many states are considered."""
MAX_ROWS = 2000
"""How many ways to buy a node are considered: for more, the load is packed without columns."""
NOTHING = 1e-30
"""Stands for an amount of 0, so that division needs no exception for it."""
USUAL = 2
"""CPU and memory, the first two resources, count also where no pod requests them."""


@dataclass(frozen=True, slots=True)
class Source:
    """A NodePool that sells nodes, with what its limits leave and the classes that it may serve."""

    template: Template
    limits: Limits
    shared: Mapping[str, int] = field(default_factory=dict)
    """Which of the limits that nodes use up each of its limits is, by name: NodePools may share one."""
    serves: Flags | None = None
    """None if it serves every class."""


@dataclass(frozen=True, slots=True)
class OptionsPart:
    """Some options (rows) for some classes (columns, or rows of ``amounts``), by the amounts for which classes compete.
    The first of these are resources.
    """

    room: Floats
    amounts: Floats
    forbidden: Flags
    most: Floats
    """How many pods of a class a node has by rules that concern no other of its classes; 0 where it is forbidden."""
    most_classes: int
    """Of how many classes a node may have pods."""


class NodeOptions:
    """What one node may be, and which pods it may carry."""

    def __init__(self, sources: Sequence[Source], load: Load, limits: Sequence[int] = ()) -> None:
        """Read the options of NodePools for a load without required affinity on a host.

        ``limits``: what is left of each limit that the sources name.
        """
        self.classes = [pod_class for pod_class, _ in load]
        self.counts: Numbers = np.array([count for _, count in load], dtype=np.int64)
        requested = np.array([pod_class.amounts for pod_class in self.classes], dtype=np.float64)
        used = np.flatnonzero(requested.any(axis=0) | (np.arange(requested.shape[1]) < USUAL))
        scarce, most = _scarce(sources[0].template, self.classes)
        amounts = np.hstack([requested[:, used], scarce])
        self.amounts: Floats = np.where(amounts > 0, amounts, NOTHING)
        self.resources = len(used)
        """How many of the amounts are resources. The others stand for rules about pods on one node."""
        self.conflicts = _conflicts(self.classes)
        menus = [
            menu
            for number, source in enumerate(sources)
            for menu in _without_narrower(list(_menus(number, source, self.classes, used, limits)))
            if len(menu.numbers)
        ]
        self.usable = 0 < sum(len(menu.numbers) for menu in menus) <= MAX_ROWS
        if not self.usable:
            return
        room = np.vstack([menu.room for menu in menus])
        # half a unit more does not change how many pods fit, because amounts are whole numbers
        self.room: Floats = np.hstack([room, np.broadcast_to(most, (len(room), len(most)))]) + 0.5
        self.price: Floats = np.concatenate([menu.price for menu in menus])
        self.types: Numbers = np.concatenate([menu.numbers for menu in menus])
        self.sources: Numbers = np.repeat([menu.source for menu in menus], [len(menu.numbers) for menu in menus])
        """Which of the sources sells the node of each row."""
        self.usage: Floats = np.vstack([menu.usage for menu in menus])
        """The part of each limit that a node uses up."""
        fits = _holds(self.room, self.amounts)
        joins = np.vstack([np.broadcast_to(menu.joins, (len(menu.numbers), len(menu.joins))) for menu in menus])
        self.allowed: Flags = joins & fits
        self.barred: Floats = (~self.allowed).T.astype(np.float64)
        """1 for a class that an option may not carry, with the classes as rows."""
        self._divide_amounts()

    def _divide_amounts(self) -> None:
        """Find the amounts for which classes compete on a node. The others only limit the pods of one class."""
        self._most: Floats = np.full(self.allowed.shape, np.inf)
        """How many pods of a class (columns) a node has (rows) by amounts that none of its other classes takes."""
        shared = list(range(self.resources))
        for number in range(self.resources, self.amounts.shape[1]):
            takers = self.amounts[:, number] >= 1
            if (self.allowed[:, takers].sum(axis=1) <= 1).all():
                limit = np.floor(self.room[:, number])[:, None]
                self._most[:, takers] = np.minimum(self._most[:, takers], limit)
            else:
                shared.append(number)
        self._shared: Numbers = np.array(shared)
        """The amounts for which classes compete."""
        self._last_part: tuple[tuple[bytes, bytes], OptionsPart] | None = None

    def part(self, rows: Numbers, classes: Numbers) -> OptionsPart:
        """Return what some of the options mean to some of the classes. A program asks for the same many times."""
        key = rows.tobytes(), classes.tobytes()
        if self._last_part is None or self._last_part[0] != key:
            allowed = self.allowed[np.ix_(rows, classes)]
            options_part = OptionsPart(
                room=self.room[np.ix_(rows, self._shared)],
                amounts=self.amounts[np.ix_(classes, self._shared)],
                forbidden=~allowed,
                most=np.where(allowed, self._most[np.ix_(rows, classes)], 0.0),
                most_classes=int(allowed.sum(axis=1).max(initial=0)),
            )
            self._last_part = key, options_part
        return self._last_part[1]

    def worth(self) -> Floats:
        """What a pod of each class costs at least: the cheapest share of a node that holds it."""
        share = np.zeros(self.allowed.shape)
        for resource in range(self.resources):
            share = np.maximum(share, self.amounts[:, resource] / self.room[:, resource, None])
        cost = np.where(self.allowed, share * self.price[:, None], np.inf).min(axis=0)
        return np.where(np.isfinite(cost), cost, 0.0)


@dataclass(frozen=True, slots=True)
class _Menu:
    """The types of one state, and which classes join a node in this state without narrowing it."""

    source: int
    numbers: Numbers
    room: Floats
    price: Floats
    usage: Floats
    joins: Flags

    def some(self, rows: Flags) -> _Menu:
        return replace(
            self, numbers=self.numbers[rows], room=self.room[rows], price=self.price[rows], usage=self.usage[rows]
        )


def _menus(
    number: int, source: Source, classes: Sequence[PodClass], used: Numbers, limits: Sequence[int]
) -> Iterator[_Menu]:
    """Yield the types of each state, without those for which another is better in every respect."""
    template = source.template
    permitted = source.limits.allowed(template.start.types)
    serves = np.ones(len(classes), dtype=bool) if source.serves is None else source.serves
    served = [pod_class for pod_class, is_served in zip(classes, serves.tolist(), strict=True) if is_served]
    for state in _states(template, served):
        menu = TypeCandidates.of(template, state, permitted & _worthy(template, state, source.limits))
        if len(menu.numbers):
            usage = _usage(source, menu.numbers, limits)
            best = _undominated(menu.room[:, used], menu.price, usage)
            room = _flexible(template, menu, best)[:, used]
            joins = np.array([template.successors(state, pod_class)[:1] == (state,) for pod_class in classes])
            yield _Menu(number, menu.numbers[best], room, menu.price[best], usage[best], joins & serves)


def _without_narrower(menus: list[_Menu]) -> list[_Menu]:
    """Drop each type of a state that another state sells for as little with as much room, to more classes."""
    for position in range(len(menus)):
        for other_position, other in enumerate(menus):
            menu = menus[position]
            wider = not (menu.joins & ~other.joins).any() and (
                (other.joins & ~menu.joins).any() or other_position < position
            )
            if position == other_position or not wider or not len(other.numbers) or not len(menu.numbers):
                continue
            places = np.searchsorted(other.numbers, menu.numbers).clip(max=len(other.numbers) - 1)
            same = other.numbers[places] == menu.numbers
            same &= (other.room[places] >= menu.room).all(axis=1) & (other.price[places] <= menu.price)
            menus[position] = menu.some(~same)
    return menus


def _states(template: Template, classes: Sequence[PodClass]) -> Iterator[State]:
    """Yield the states that pods lead to, alone first and then together."""
    reached: list[State] = []
    front = [template.start]
    while front and len(reached) < MAX_STATES:
        following: list[State] = []
        for state in front:
            for pod_class in classes:
                for after in template.successors(state, pod_class)[:1]:
                    if after not in reached and len(reached) < MAX_STATES:
                        reached.append(after)
                        following.append(after)
                        yield after
        front = following


def _worthy(template: Template, state: State, limits: Limits) -> int:
    """The types worth filling. Under limits, a type that costs more may use up less."""
    if not limits.unlimited:
        return state.types
    return sum(1 << number for number in template.targets(state)) | state.types & template.burstable


def _holds(room: Floats, amounts: Floats) -> Flags:
    """Whether each room (rows) has at least each of the amounts (columns) of every resource."""
    holds = np.ones((len(room), len(amounts)), dtype=bool)
    for resource in range(room.shape[1]):
        holds &= room[:, resource, None] >= amounts[:, resource]
    return holds


def _undominated(room: Floats, price: Floats, usage: Floats) -> Numbers:
    """Rows for which no other row has as much room at the same price or less, and uses up no more of any limit."""
    order = np.lexsort((usage.sum(axis=1), -room.sum(axis=1), price))
    goods = np.hstack([room, -usage])[order]
    better = _holds(goods, goods) & np.triu(np.ones((len(order),) * 2, dtype=bool), 1)
    return np.sort(order[~better.any(axis=0)])


def _flexible(template: Template, menu: TypeCandidates, rows: Numbers) -> Floats:
    """The room of some types. If nodes may be bought on spot, only as far as enough other spot types have it too."""
    spot = positions(menu.state.types & menu.state.market.spot, len(template.table.types))
    if len(spot) < SPOT_FLEXIBILITY:
        return menu.room[rows]
    room = menu.room[rows]
    others = template.table.rooms[spot]
    for group_types, overhead in menu.state.groups:
        covered_rows = np.isin(spot, positions(group_types, len(template.table.types)))
        others[covered_rows] = np.minimum(
            others[covered_rows], template.table.rooms[spot[covered_rows]] - np.array(overhead, dtype=np.float64)
        )
    for row in np.flatnonzero(_holds(others, room).sum(axis=0) < SPOT_FLEXIBILITY):
        room[row, 0] = min(room[row, 0], np.sort(others[:, 0])[-SPOT_FLEXIBILITY])
        with_cpu = others[others[:, 0] >= room[row, 0]]
        room[row, 1] = min(room[row, 1], np.sort(with_cpu[:, 1])[-SPOT_FLEXIBILITY])
    return room


def _usage(source: Source, numbers: Numbers, limits: Sequence[int]) -> Floats:
    """The part of each limit that nodes of the types use up."""
    usage = np.zeros((len(numbers), len(limits)))
    for name, column in source.shared.items():
        amounts = 1.0 if counts_nodes(name) else source.template.table.capacities(name)[numbers]
        usage[:, column] = amounts / max(1, limits[column])
    return usage


def _scarce(template: Template, classes: Sequence[PodClass]) -> tuple[Floats, Floats]:
    """Rules about pods on one node as resources: what a pod of each class takes, and what each node has."""
    most: dict[object, int] = {}
    takes: list[dict[object, int]] = []
    for pod_class in classes:
        keys: dict[object, int] = {("port", port, protocol): 1 for _, port, protocol in pod_class.ports}
        if pod_class.host is not None:
            keys |= {("group", *pair): pair[1] for pair in pod_class.host.at_most}
        limit = template.shares.most(pod_class)
        if limit < UNBOUNDED:
            keys["workload", template.shares.workload(pod_class)] = limit
        most |= keys
        takes.append(keys)
    names = list(most)
    return np.array([[float(name in keys) for name in names] for keys in takes]).reshape(
        len(classes), len(names)
    ), np.array([float(most[name]) for name in names])


def _conflicts(classes: Sequence[PodClass]) -> Flags | None:
    """Pairs of classes that must not share a node; None if there are none."""
    hosts = [pod_class.host for pod_class in classes]
    if not any(host is not None and host.holds for host in hosts):
        return None
    conflicts = np.zeros((len(classes), len(classes)), dtype=bool)
    for first, host in enumerate(hosts):
        for second, other in enumerate(hosts):
            if first != second and host is not None and other is not None and set(host.holds) & set(other.counted):
                conflicts[first, second] = conflicts[second, first] = True
    return conflicts if conflicts.any() else None
