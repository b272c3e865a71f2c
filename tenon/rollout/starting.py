"""Since when a wave tries in vain to start nodes of a new version.

Each try ends after some minutes: EC2 refuses the launch, or the command that waits for the node deletes it.
So no node gets old enough to show that its version cannot start, and a wave must remember it across nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tenon.rollout.nodes import PoolNode


def starting_since(
    before: datetime | None, new: Sequence[PoolNode], now: datetime, *, under_way: bool, refused: bool
) -> datetime | None:
    """Return since when nodes of the new version are being started and none became initialized; None if none is.

    Args:
        before: what this returned at the check before.
        new: the nodes of the new version, without those that leave.
        now: the time.
        under_way: whether nodes of the wave are still to be replaced.
        refused: whether EC2 refused the last launch of the version.
    """
    if not under_way:
        return None
    if before is not None and any(node.initialized and node.created >= before for node in new):
        before = None
    starting = [node.created for node in new if not node.initialized]
    if before is None and (starting or refused):
        return min([now, *starting])
    return before
