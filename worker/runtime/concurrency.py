"""Scales a worker's concurrency with its CPU request (CPU_REQUESTS), as Karpenter scales its reconciles."""

from __future__ import annotations

from dataclasses import dataclass

GIVEN = 1000.0
"""Millicores for which the values below are chosen. Also the default if nothing is requested."""


@dataclass(frozen=True, slots=True)
class Concurrency:
    """The concurrency of one io process."""

    activities: int = 200
    """Most of them wait for AWS or Kubernetes."""
    workflow_tasks: int = 30
    cordoning: int = 200
    """In addition to the activities above: nodes that are cordoned, or lose their finalizers."""
    draining: int = 200
    """Also in addition: nodes that wait for their pods or volumes to be removed."""
    ending: int = 500
    """Also in addition: nodes that wait for their instance to terminate. One call a second polls all of them."""


MIN = Concurrency(50, 10, 50, 50, 500)
MAX = Concurrency(1000, 200, 1000, 1000, 2000)


def concurrency(millicores: float) -> Concurrency:
    """Concurrency in proportion to the CPU, within bounds. A request of 0 counts as one core."""
    share = (millicores or GIVEN) / GIVEN
    usual = Concurrency()

    def scaled(figure: str) -> int:
        return int(min(max(getattr(usual, figure) * share, getattr(MIN, figure)), getattr(MAX, figure)))

    return Concurrency(
        activities=scaled("activities"),
        workflow_tasks=scaled("workflow_tasks"),
        cordoning=scaled("cordoning"),
        draining=scaled("draining"),
        ending=scaled("ending"),
    )
