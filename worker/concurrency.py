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


LEAST = Concurrency(50, 10)
MOST = Concurrency(1000, 200)


def concurrency(millicores: float) -> Concurrency:
    """In proportion to the CPU, within bounds; a request of nothing counts as one core."""
    share = (millicores or GIVEN) / GIVEN
    usual = Concurrency()
    return Concurrency(
        activities=int(min(max(usual.activities * share, LEAST.activities), MOST.activities)),
        workflow_tasks=int(min(max(usual.workflow_tasks * share, LEAST.workflow_tasks), MOST.workflow_tasks)),
    )
