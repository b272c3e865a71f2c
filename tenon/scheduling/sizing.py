"""Choose how large the nodes of a NodePool should be.

Filling the largest type first is simple and dear: beyond some size a vCPU costs no less, and the last node is seldom
full. So several packings are made of the same pods (the load dealt evenly over nodes of the best sizes, single nodes
filled for the best price, first-fit with node sizes capped) and the cheapest is kept. Plain first-fit is always one of
them, and no packing that costs more is ever chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain

from tenon.resources import CPU
from tenon.scheduling.balanced_packing import deal
from tenon.scheduling.first_fit import Packing, first_fit
from tenon.scheduling.greedy import fill_best
from tenon.scheduling.limits import Limits
from tenon.scheduling.load_partition import ways_to_cut
from tenon.scheduling.outliers import outliers
from tenon.scheduling.packing import Load, top_up
from tenon.scheduling.template import Template

CAPS = (8_000, 16_000, 32_000, 64_000, 96_000)
"""Node sizes in millicores that first-fit is tried with."""
FEW = 2_000
"""Pods that keep each other off their nodes are dealt in two ways where classes x nodes are no more than this."""
SMALL = 6_000
"""Nodes are filled one by one with what is best for each where classes x nodes are no more than this."""
EFFORT = 10_000
"""First-fit with a cap is tried where classes x nodes are no more than this."""


def pack(template: Template, load: Load, limits: Limits | None = None, *, whole: bool = True) -> Packing:
    """The best packing of a load on new nodes of a pool. Loads must be in queue order.

    ``limits`` is what the pool may still launch, where that is not what its own limits leave. A load that is not
    ``whole`` is part of another, from which the few pods that fit on unusual types only were set apart.
    """
    if limits is not None:
        template.limits = limits.copy(template.pool)
    plain = first_fit(template, load, template.table.every)
    if not plain.bins:
        return plain
    packings = [plain]
    # what first-fit finds no place for at all must not stand in the way of the others
    wanted = {id(pod_class): count for pod_class, count in load}
    hopeless = [(pod_class, count) for pod_class, count in plain.left if count == wanted[id(pod_class)]]
    without = {id(pod_class) for pod_class, _ in hopeless}
    hopeful = [pair for pair in load if id(pair[0]) not in without]
    attempts = _attempts(template, hopeful, len(plain.bins))
    if whole and plain.limits.unlimited:
        odd, others = outliers(template, hopeful)
        attempts = chain(attempts, [partial(_apart, template, odd, others)] if odd else ())
    for attempt in attempts:
        if template.expired():
            break
        packing = attempt()
        packing = replace(packing, left=[*packing.left, *hopeless])
        # under limits first-fit makes many small nodes, whose mere price is no measure
        if packing.price() <= plain.price() or not plain.limits.unlimited:
            packings.append(packing)
    return min(packings, key=Packing.cost)


def _apart(template: Template, odd: Load, others: Load) -> Packing:
    """Nodes for the odd ones, filled up with others for nothing, and nodes for what still waits."""
    first = pack(template, odd, whole=False)
    for node in first.bins:
        others = top_up(node, others)
    second = pack(template, others, whole=False)
    bins, left = [*first.bins, *second.bins], [*first.left, *second.left]
    return first_fit(template, left, template.table.every, bins, second.limits)


def _attempts(template: Template, load: Load, nodes: int) -> Iterator[Callable[[], Packing]]:
    whole, scattered = 0, False
    for portions in ways_to_cut(template, load):
        whole = max(whole, *(len(portion.classes) for portion in portions), 0)
        scattered = any(portion.scattered for portion in portions)
        for tight in (True,) if scattered and len(load) * nodes > FEW else (False, True):
            yield partial(deal, template, load, portions, tight=tight)
    if whole < len(load) or scattered:
        if len(load) * nodes <= SMALL:
            yield partial(fill_best, template, load)
        number = template.table.names.index(CPU)
        for cap in CAPS if len(load) * nodes <= EFFORT else ():
            capped = template.table.every & ~template.table.holding(number, cap)
            if capped:
                yield partial(first_fit, template, load, capped)
