"""Whether a wave may begin now: its windows, freezes, NodeSchedules, and the NodePools that come before this one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from tenon.apis.disruption_windows import DisruptionWindow
from tenon.apis.noderollout import NodeRolloutSpec, RolloutWindow
from tenon.kube.timestamps import spoken
from tenon.messages.rollout import PoolProgress


def held_back(
    spec: NodeRolloutSpec,
    earlier: Iterable[PoolProgress],
    *,
    frozen: str,
    problems: Sequence[str],
    now: datetime,
    closed: str = "",
) -> str:
    """Return why no wave of a NodePool may begin now, in a clause; empty if one may.

    Args:
        spec: the spec of the NodeRollout.
        earlier: the NodePools that come before this one by their names.
        frozen: which DisruptionFreeze holds and until when, in a clause; empty if none does.
        problems: what is wrong with the NodeRollout, in sentences.
        now: the time.
        closed: why the NodePool launches nothing by schedule and until when, in a clause; empty if it does.
    """
    if problems:
        return f"the NodeRollout has a problem: {problems[0]}"
    if frozen:
        return f"the NodePool is {frozen}"
    if closed:
        return f"the NodePool launches no nodes, because {closed}"
    if spec.strategy.order == "NodePool":
        for progress in earlier:
            if progress.phase != "Settled":
                return f"NodePool {progress.pool} comes first, and its rollout is {progress.phase}"
    windows = [_window(window) for window in spec.windows]
    if not windows or any(window.is_open(now) for window in windows):
        return ""
    return f"the next window opens on {spoken(min(window.next_opening(now) for window in windows))}"


def _window(window: RolloutWindow) -> DisruptionWindow:
    return DisruptionWindow(window.schedule, timedelta(seconds=window.duration.seconds or 0), window.timezone)
