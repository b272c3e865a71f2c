"""Whether pods that spread over zones are worth planning again, with other first zones.

A second plan takes as long as the first, and most cost no less. The linear program of the first plan says what a pod is
worth in each zone, and with that what the pods of the second plan cost at least, as soon as their zones are settled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tenon.scheduling.first_fit_baseline import FleetPlan, cost_of
from tenon.scheduling.packing.fleet import Fleet, Placement, kind_of

LEAST_SAVING = 0.0025
"""The part of the cost that the program must promise for a second plan."""
FAR = 1.02
"""With few nodes, their sizes decide more than the program says: if nodes cost more than this part of what it says, the
second plan is made anyway.
"""


def placement_of(fleets: Sequence[Fleet]) -> Placement:
    """Return how many pods of each kind the nodes of each fleet hold."""
    placement: Placement = Counter()
    for number, fleet in enumerate(fleets):
        for node in fleet.bins:
            for pod_class, count in node.load:
                placement[number, kind_of(pod_class)] += count
    return placement


def cannot_pay(fleets: Sequence[Fleet], than: FleetPlan) -> bool:
    """Whether a plan whose pods are placed like this is not worth completing next to the first plan.

    While pods are still being placed, it is.
    """
    if not than.places_all():
        return False
    placement = placement_of(fleets)
    changes = {key: placement[key] - than.placement[key] for key in placement.keys() | than.placement.keys()}
    changes = {key: change for key, change in changes.items() if change}
    if not changes:
        return True
    programs = [fleet.program for fleet in than.fleets]
    saving = 0.0
    for (number, kind), change in changes.items():
        program = programs[number]
        if program is None:
            return False
        saving -= change * program.worth_of(kind)
    least = sum(cost_of([fleet]) if fleet.program is None else fleet.program.least for fleet in than.fleets)
    return saving < LEAST_SAVING * least and cost_of(than.fleets) <= FAR * least
