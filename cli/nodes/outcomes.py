"""Says when what an operator asked a node for is over, and how it ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from tenon.node.state import NodeState, Stage


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended: the last line about the node."""

    text: str
    failed: bool = False


Judge = Callable[[NodeState | None, datetime], Outcome | None]
"""Returns how it ended for a node that was asked at a time, or None while it goes on.

The state is None if the workflow is gone.
"""


def removal(state: NodeState | None, asked_at: datetime) -> Outcome | None:  # noqa: ARG001 - a node leaves once
    """Judge the removal of a node."""
    return Outcome("gone") if state is None or state.stage is Stage.ENDED else None


def reboot(state: NodeState | None, asked_at: datetime) -> Outcome | None:
    """Judge a reboot."""
    if state is None or state.leave is not None:
        return Outcome("the reboot has ended, because the node leaves: `tenon node show` says why", failed=True)
    if state.reboot is not None or asked_at not in state.reboots:
        return None
    if state.failed_reboot == asked_at:
        return Outcome("the reboot failed, and the node stays as it was", failed=True)
    return Outcome("rebooted")
