"""Says in gauges how far each rollout is. Those of a NodePool that no rollout selects any more drop to 0."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import get_args

from activities import metrics
from tenon.apis.noderollout import RolloutPhase
from tenon.messages.rollout import PoolProgress

AWAITS_APPROVAL = "awaits_approval"


def _spelled(phase: str) -> str:
    """Return a phase in the spelling of labels: rolling_back for RollingBack."""
    return re.sub(r"\B(?=[A-Z])", "_", phase).lower()


STATES = (*map(_spelled, get_args(RolloutPhase)), AWAITS_APPROVAL)


class RolloutMetrics:
    """Sets the gauges, and remembers of which NodePools."""

    def __init__(self) -> None:
        self._measured: dict[str, set[str]] = {}

    def measure(self, rollout: str, pools: Sequence[PoolProgress]) -> None:
        """Set the gauges of a NodeRollout, which is gone if it has no NodePools."""
        for progress in pools:
            self._set(rollout, progress, STATES)
        present = {progress.pool for progress in pools}
        for pool in self._measured.pop(rollout, set()) - present:
            self._set(rollout, PoolProgress(pool=pool), ())
        if present:
            self._measured[rollout] = present

    @staticmethod
    def _set(rollout: str, progress: PoolProgress, states: Sequence[str]) -> None:
        """``states``: those of which one may hold."""
        pool = progress.pool
        state = AWAITS_APPROVAL if progress.awaits_approval else _spelled(progress.phase)
        for name in STATES:
            metrics.ROLLOUT_STATE.labels(rollout, pool, name).set(name == state and name in states)
        is_under_way = progress.phase in ("Progressing", "Paused") and progress.began is not None
        began = progress.began.timestamp() if is_under_way and progress.began is not None else 0.0
        metrics.ROLLOUT_WAVE.labels(rollout, pool).set(progress.wave + 1 if progress.wave is not None else 0)
        metrics.ROLLOUT_WAVE_BEGAN.labels(rollout, pool).set(began)
        counts = {"replaced": progress.replaced, "leaving": len(progress.claims), "held": len(progress.held_nodes)}
        for kind, count in counts.items():
            metrics.ROLLOUT_NODES.labels(rollout, pool, kind).set(count)
