"""How much a worker does at once, by the CPU that it was given: CPU_REQUESTS, as Karpenter scales its reconciles."""

from __future__ import annotations

from dataclasses import dataclass

GIVEN = 1000.0
"""Millicores for which the figures below are chosen, and which are assumed where nothing is requested."""


@dataclass(frozen=True, slots=True)
class Concurrency:
    """What one io process does at once."""

    activities: int = 200
    """Most of them wait for AWS or Kubernetes."""
    workflow_tasks: int = 30
    draining: int = 200
    """In addition to the activities above: nodes that wait for their pods or volumes to go."""
    ending: int = 500
    """Also in addition: nodes that wait for their instance to end; one call a second looks at all."""


LEAST = Concurrency(50, 10, 50, 500)
MOST = Concurrency(1000, 200, 1000, 2000)


def concurrency(millicores: float) -> Concurrency:
    """In proportion to the CPU, within bounds; a request of nothing counts as one core."""
    share = (millicores or GIVEN) / GIVEN
    usual = Concurrency()

    def scaled(figure: str) -> int:
        return int(min(max(getattr(usual, figure) * share, getattr(LEAST, figure)), getattr(MOST, figure)))

    return Concurrency(
        activities=scaled("activities"),
        workflow_tasks=scaled("workflow_tasks"),
        draining=scaled("draining"),
        ending=scaled("ending"),
    )
