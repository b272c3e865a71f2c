"""Compares a plan with plain first-fit for the same pods and rules, and keeps the better one.

If pods have rules about other pods, their domains are settled before node sizes are chosen. Each domain is then packed
well, but prices did not decide which pods are in it. First-fit decides both at once. It is rarely better, and then only
by a little, but the engine never chooses a plan that costs more. First-fit takes about as long again, so only small
loads are compared, each with two kinds of first-fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from tenon.scheduling.domains.constrained_placement import Placer
from tenon.scheduling.model import Plan
from tenon.scheduling.packing.fleet import Fleet, Placement

EFFORT = 10_000
"""Plans are compared if pods x new nodes is at most this."""
MAX_CLASSES = 100
"""Plans are compared if the pods are of at most this many kinds."""


class Order(Enum):
    """Which new node a pod is offered to first."""

    OLDEST = "oldest"
    EMPTIEST = "emptiest"


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """A plan, and the new nodes that it consists of."""

    plan: Plan
    fleets: Sequence[Fleet]
    comparable: bool
    """Whether first-fit for the same pods is fast enough to be worth comparing."""
    is_beaten: bool = False
    """Whether it is incomplete, because it is not worth completing next to another plan."""
    placement: Placement = field(default_factory=Counter)
    """The pods that were placed one after another, by their domains, before nodes were chosen for them."""
    placer: Placer | None = None
    """Has placed the pods; None if the plan is incomplete."""
    compared: frozenset[tuple[int, str]] = frozenset()
    """The (group, domain) pairs that spread constraints compared because other pods' new nodes are there."""

    def cost(self) -> tuple[int, float]:
        """Pods without a place, then the price with the charge per node. Burstable types count at their baseline."""
        return self._unplaced(), cost_of(self.fleets)

    def price(self) -> tuple[int, float]:
        """Pods without a place, then the price without charges."""
        return self._unplaced(), round(sum(claim.price for claim in self.plan.claims), 9)

    def is_better_than(self, other: FleetPlan) -> bool:
        """Whether it costs less and has no higher price, with as many pods."""
        return self.cost() < other.cost() and self.price() <= other.price()

    def places_all(self) -> bool:
        """Whether every pod has a place."""
        return not self._unplaced()

    def _unplaced(self) -> int:
        return len(self.plan.unschedulable) + len(self.plan.unreached)


def is_worthwhile(pods: int, kinds: int, nodes: int) -> bool:
    """Whether to compare a plan with this many pods, kinds of pods and new nodes."""
    return nodes > 0 and pods * nodes <= EFFORT and kinds <= MAX_CLASSES


IsBeaten = Callable[[Sequence[Fleet]], bool]
"""Whether a plan with these nodes, and whichever follow, is not worth completing."""


def is_never_beaten(_: Sequence[Fleet]) -> bool:
    """For plans that are not compared."""
    return False


def is_no_better(fleets: Sequence[Fleet], than: FleetPlan) -> bool:
    """Whether the nodes of an incomplete first-fit already have a higher price than a plan, and cost as much.

    More pods never make a node cheaper, so the complete first-fit would not replace the plan.
    """
    return than.places_all() and cost_of(fleets) >= cost_of(than.fleets) and _price(fleets) > _price(than.fleets)


def cost_of(fleets: Sequence[Fleet]) -> float:
    """Return the cost of the fleets' nodes with the charge per node. Burstable types count at their baseline."""
    steady = sum(
        fleet.template.sizing_price(node.state, node.types, node.amounts[0]) + fleet.template.node_charge
        for fleet in fleets
        for node in fleet.bins
    )
    return round(steady, 9)


def _price(fleets: Sequence[Fleet]) -> float:
    return round(sum(fleet.template.price(node.state, node.types) for fleet in fleets for node in fleet.bins), 9)


def best(packed: FleetPlan, first_fits: Sequence[FleetPlan]) -> FleetPlan:
    """Return the plan with the least cost among those whose price is at most that of every first-fit.

    Of a first-fit that was beaten, the nodes so far are known, which cost more than the packed plan.
    """
    complete = [first_fit for first_fit in first_fits if not first_fit.is_beaten]
    beaten_prices = [(0, _price(first_fit.fleets)) for first_fit in first_fits if first_fit.is_beaten]
    lowest_price = min([*(first_fit.price() for first_fit in complete), *beaten_prices])
    cheap = [fleet_plan for fleet_plan in (packed, *complete) if fleet_plan.price() <= lowest_price]
    return min(cheap, key=FleetPlan.cost, default=packed)
