"""Compare a plan with plain first-fit for the same pods under the same rules, and keep the better one.

Where pods look at each other, their domains are settled before sizes are chosen. Each domain is then packed well, but
which pods are in it was decided without a look at prices. First-fit, which decides both at once, is seldom better, and
then by little; but nothing dearer than it may be chosen. It takes about as long again, so only small loads are
compared, each with two kinds of first-fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from tenon.scheduling.fleet import Fleet
from tenon.scheduling.model import Plan

EFFORT = 10_000
"""Plans are compared where pods x new nodes are no more than this."""
MOST_KINDS = 100
"""And where the pods are of no more kinds."""


class Order(Enum):
    """Which of the new nodes a pod is offered to first."""

    OLDEST = "oldest"
    EMPTIEST = "emptiest"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan, and the new nodes that it is made of."""

    plan: Plan
    fleets: Sequence[Fleet]
    comparable: bool
    """Whether the same pods can be placed by first-fit in so little time that it is worth it."""

    def cost(self) -> tuple[int, float]:
        """Pods without a place, then the price with the charge for each node; burstable types at their baseline."""
        steady = sum(
            fleet.template.sizing_price(node.state, node.types, node.amounts[0]) + fleet.template.node_charge
            for fleet in self.fleets
            for node in fleet.bins
        )
        return self._without_a_place(), round(steady, 9)

    def price(self) -> tuple[int, float]:
        """Pods without a place, then the plain price."""
        return self._without_a_place(), round(sum(claim.price for claim in self.plan.claims), 9)

    def _without_a_place(self) -> int:
        return len(self.plan.unschedulable) + len(self.plan.unreached)


def worthwhile(pods: int, kinds: int, nodes: int) -> bool:
    """Whether a plan of so many new nodes, for so many pods of so many kinds, should be compared."""
    return nodes > 0 and pods * nodes <= EFFORT and kinds <= MOST_KINDS


def best(packed: Candidate, first_fits: Sequence[Candidate]) -> Candidate:
    """The plan that counts least, of those whose price is no higher than that of any first-fit."""
    least = min(each.price() for each in first_fits)
    return min((each for each in (packed, *first_fits) if each.price() <= least), key=Candidate.cost)
