"""On the PYTHONPATH of a worker: its Nodes do not say when they were created.

No fault counts from before the creation of its Node, and the Nodes of a test are seconds old. Python imports this
before anything else.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from tenon.disruption.repair.decision import NodeHistory
from tenon.disruption.rules import unhealthy


def ageless(_: datetime | None, rebooted_at: datetime | None, reboots: Collection[datetime]) -> NodeHistory:
    """The history of a node without its creation."""
    return NodeHistory(None, rebooted_at, reboots)


unhealthy.NodeHistory = ageless  # type: ignore[assignment, attr-defined]
