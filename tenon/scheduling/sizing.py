"""Choose how large the nodes of a NodePool should be.

Filling the largest type first is simple and dear: beyond some size a vCPU costs no less, and the last node is seldom
full. So several packings are made of the same pods (first-fit with node sizes capped, the type with the best price for
what it takes filled first, and for equal pods the exact optimum) and the cheapest is kept. Plain first-fit is always
one of them, and no packing that costs more is ever chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tenon.resources import CPU
from tenon.scheduling.limits import Limits
from tenon.scheduling.packing import Bin, Load, fill, without
from tenon.scheduling.pod_classes import PodClass
from tenon.scheduling.template import State, Template
from tenon.scheduling.type_table import members

NODE_CHARGE = 0.02
"""Dollars an hour that a node counts beside its price: its kubelet, DaemonSets, addresses and upkeep are not free, and
between plans that cost nearly the same the one with fewer nodes is better. About half the price of one vCPU."""
CAPS = (8_000, 16_000, 32_000, 64_000, 96_000)
"""Node sizes in millicores that first-fit is tried with."""
EFFORT = 60_000
"""Bound on the steps (types tried x classes x nodes) of filling by best price, so that large batches stay quick."""
STEPS = 300_000
"""Classes offered to nodes by best price, after which the rest of a batch goes by first-fit."""
LONGEST_TABLE = 2_000
"""Equal pods beyond this number go on nodes of the best type without an exact search."""


@dataclass(frozen=True, slots=True)
class Packing:
    """Nodes, the load that found no place, and what limits leave."""

    bins: list[Bin]
    left: Load
    limits: Limits

    def cost(self) -> tuple[int, float]:
        """Pods left over, then the price with the charge for each node; burstable types at their baseline."""
        steady = (b.template.sizing_price(b.state, b.types, b.amounts[0]) for b in self.bins)
        return sum(count for _, count in self.left), round(sum(steady) + NODE_CHARGE * len(self.bins), 9)

    def price(self) -> tuple[int, float]:
        """Pods left over, then the plain price."""
        plain = sum(b.template.price(b.state, b.types) for b in self.bins)
        return sum(count for _, count in self.left), round(plain, 9)


def pack(template: Template, load: Load, limits: Limits | None = None) -> Packing:
    """The best packing of a load on new nodes of a pool. Loads must be in queue order.

    ``limits`` is what the pool may still launch, where that is not what its own limits leave.
    """
    if limits is not None:
        template.limits = limits.copy(template.pool)
    plain = _first_fit(template, load, template.table.every)
    if not plain.bins:
        return plain
    packings = [plain]
    for attempt in _attempts(template, load, len(plain.bins)):
        packing = attempt()
        if packing.price() <= plain.price():
            packings.append(packing)
    return min(packings, key=Packing.cost)


def _attempts(template: Template, load: Load, nodes: int) -> Iterator[Callable[[], Packing]]:
    yield lambda: _best_price(template, load, nodes)
    if len(load) * nodes <= EFFORT:
        number = template.table.names.index(CPU)
        for cap in CAPS:
            capped = template.table.every & ~template.table.holding(number, cap)
            if capped:
                yield lambda capped=capped: _first_fit(template, load, capped)  # type: ignore[misc]


def _first_fit(template: Template, load: Load, sizes: int) -> Packing:
    """Each class goes on the first nodes that take it; a new node is kept to ``sizes`` where a pod fits those."""
    limits = template.limits.copy(template.pool)
    bins: list[Bin] = []
    left: Load = []
    spare: list[int] = []
    for pod_class, total in load:
        count, cpu = total, pod_class.amounts[0]
        for position in [n for n, room in enumerate(spare) if room >= cpu]:
            if not count:
                break
            if added := bins[position].add(pod_class, count):
                count -= added
                spare[position] = bins[position].spare()[0]
        while count:
            opened = _open(template, pod_class, count, limits, bins, sizes)
            if opened is None:
                left.append((pod_class, count))
                break
            bins.append(opened)
            count -= opened.load[0][1]
            if limits.unlimited and (full := count // opened.load[0][1]):
                bins.extend(opened.copy() for _ in range(full))
                count -= full * opened.load[0][1]
            spare.extend(node.spare()[0] for node in bins[len(spare) :])
    if bins:
        _close(bins[-1], limits)
    return Packing(bins, left, limits)


def _open(
    template: Template, pod_class: PodClass, count: int, limits: Limits, bins: list[Bin], sizes: int
) -> Bin | None:
    """A new node with at least one pod of the class; the node opened before it is closed against growth."""
    if bins:
        _close(bins[-1], limits)
    permitted = limits.allowed(template.start.types)
    for wanted in (sizes, template.table.every) if sizes != template.table.every else (sizes,):
        node = Bin(template, permitted, wanted)
        if permitted and node.add(pod_class, count):
            return node
    if bins:
        _reopen(bins[-1], limits)
    return None


def _close(node: Bin, limits: Limits) -> None:
    """Count a node against the limits with its cheapest type, and let it grow no larger than that."""
    if limits.unlimited:
        return
    peak = limits.peak(1 << node.cheapest())
    kept = limits.not_above(node.types, peak)
    if node.admits(node.state, kept):
        node.restrict(kept)
    limits.take(limits.peak(node.types))


def _reopen(node: Bin, limits: Limits) -> None:
    """Take back the counting of `_close`; the node keeps its size."""
    if not limits.unlimited:
        limits.take({name: -amount for name, amount in limits.peak(node.types).items()}, nodes=-1)


def _best_price(template: Template, load: Load, nodes: int) -> Packing:
    """Again and again fill the type whose price is best for the load that it takes, and repeat that node."""
    limits = template.limits.copy(template.pool)
    worth = _Worth(template)
    bins: list[Bin] = []
    left: Load = []
    waiting = list(load)
    tries = max(8, EFFORT // max(1, len(load) * nodes))
    steps = STEPS
    while waiting:
        first = waiting[0]
        steps -= tries * len(waiting)
        if steps < 0 and limits.unlimited:
            rest = _first_fit(template, waiting, template.table.every)
            return Packing(bins + rest.bins, left + rest.left, limits)
        if len(waiting) == 1 and limits.unlimited:
            bins.extend(_equal_pods(template, *first, tries))
            placed = bins and sum(n for b in bins for c, n in b.load if c is first[0])
            if placed:
                waiting = without(load, [pair for b in bins for pair in b.load])
                if waiting:
                    left.extend(waiting)
                break
        node = _best_node(template, waiting, limits, worth, tries)
        if node is None:
            left.append(first)
            waiting = waiting[1:]
            continue
        copies = _repeats(node, waiting) if limits.unlimited else 1
        bins.append(node)
        bins.extend(node.copy() for _ in range(copies - 1))
        _close(node, limits)
        waiting = without(waiting, [(c, n * copies) for c, n in node.load])
    return Packing(bins, left, limits)


def _best_node(template: Template, load: Load, limits: Limits, worth: _Worth, tries: int) -> Bin | None:
    best: Bin | None = None
    best_ratio = 0.0
    permitted = limits.allowed(template.start.types)
    for number in _candidates(template, load[0][0], permitted, tries):
        node = Bin(template, permitted, 1 << number)
        fill(node, load)
        if not node.load or node.load[0][0] is not load[0][0]:
            continue
        taken = sum(count * worth.of(pod_class) for pod_class, count in node.load)
        price = template.sizing_price(node.state, node.types, node.amounts[0])
        ratio = (price + NODE_CHARGE) / taken if taken else price + NODE_CHARGE
        if best is None or ratio < best_ratio:
            best, best_ratio = node, ratio
    return best


def _candidates(template: Template, pod_class: PodClass, permitted: int, tries: int) -> list[int]:
    """Types to try for a node that starts with the class: not dominated ones, evenly thinned to ``tries``."""
    found: dict[int, float] = {}
    for state in template.successors(template.start, pod_class):
        fitting = template.fitting(state, pod_class.amounts) & permitted
        for number in template.targets(state):
            if fitting >> number & 1:
                found.setdefault(number, state.market.best[number][0])
        if not found:
            found = {n: state.market.best[n][0] for n in members(fitting)}
    ordered = sorted(found, key=lambda number: (found[number], number))
    if len(ordered) <= tries:
        return ordered
    return [ordered[position * (len(ordered) - 1) // (tries - 1)] for position in range(tries)]


def _repeats(node: Bin, load: Load) -> int:
    """How often the node's load is contained in what waits."""
    waiting = {id(pod_class): count for pod_class, count in load}
    taken: dict[int, int] = {}
    for pod_class, count in node.load:
        taken[id(pod_class)] = taken.get(id(pod_class), 0) + count
    return max(1, min(waiting[key] // count for key, count in taken.items()))


class _Worth:
    """What a pod of each class costs at best: the cheapest share of a type that it takes. Weighs unlike pods."""

    def __init__(self, template: Template) -> None:
        self._template = template
        self._known: dict[int, float] = {}

    def of(self, pod_class: PodClass) -> float:
        """Dollars an hour."""
        known = self._known.get(id(pod_class))
        if known is None:
            shares = [self._share(state, pod_class) for state in self._states(pod_class)]
            known = self._known[id(pod_class)] = min(shares, default=0.0)
        return known

    def _states(self, pod_class: PodClass) -> tuple[State, ...]:
        return self._template.successors(self._template.start, pod_class)

    def _share(self, state: State, pod_class: PodClass) -> float:
        room = self._template.table.room
        fitting = self._template.fitting(state, pod_class.amounts)
        return min(
            (
                state.market.best[n][0]
                * max((a / b for a, b in zip(pod_class.amounts, room[n], strict=True) if a > 0), default=0.0)
                for n in self._template.targets(state)
                if fitting >> n & 1
            ),
            default=0.0,
        )


def _equal_pods(template: Template, pod_class: PodClass, count: int, tries: int) -> list[Bin]:
    """The cheapest nodes for pods of one class, found exactly among the types worth filling."""
    options: list[tuple[int, float, Bin]] = []
    for number in _candidates(template, pod_class, template.start.types, max(tries, 60)):
        node = Bin(template, template.start.types, 1 << number)
        if taken := node.add(pod_class, count):
            options.append((taken, template.sizing_price(node.state, node.types, node.amounts[0]) + NODE_CHARGE, node))
    if not options:
        return []
    bins: list[Bin] = []
    if count > LONGEST_TABLE:
        taken, _, node = min(options, key=lambda option: option[1] / option[0])
        full = (count - LONGEST_TABLE // 2) // taken
        bins.extend(node.copy() for _ in range(full))
        count -= full * taken
    cost = [0.0] * (count + 1)
    pick = [0] * (count + 1)
    for n in range(1, count + 1):
        cost[n], pick[n] = min((round(cost[max(0, n - k)] + p, 9), i) for i, (k, p, _) in enumerate(options))
    while count:
        taken, _, full_node = options[pick[count]]
        if taken <= count:
            bins.append(full_node.copy())
            count -= taken
        else:
            last = Bin(template, template.start.types, full_node.wanted)
            last.add(pod_class, count)
            bins.append(last)
            count = 0
    return bins
