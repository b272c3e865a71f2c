"""Says in gauges how far each rollout is. Those of a NodePool that no rollout selects any more drop to 0."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import get_args

from activities import metrics
from activities.reported_gauges import end_all_but, report
from tenon.apis.noderollout import RolloutPhase
from tenon.messages.rollout import PoolProgress

AWAITS_APPROVAL = "awaits_approval"


def _spelled(phase: str) -> str:
    """Return a phase in the spelling of labels: rolling_back for RollingBack."""
    return re.sub(r"\B(?=[A-Z])", "_", phase).lower()


STATES = (*map(_spelled, get_args(RolloutPhase)), AWAITS_APPROVAL)


_GAUGES = (metrics.ROLLOUT_STATE, metrics.ROLLOUT_WAVE, metrics.ROLLOUT_WAVE_BEGAN, metrics.ROLLOUT_NODES)


def measure(rollout: str, pools: Sequence[PoolProgress]) -> None:
    """Set the gauges of a NodeRollout, which is gone if it has no NodePools."""
    states: dict[tuple[str, ...], float] = {}
    waves: dict[tuple[str, ...], float] = {}
    begins: dict[tuple[str, ...], float] = {}
    nodes: dict[tuple[str, ...], float] = {}
    for progress in pools:
        pool = progress.pool
        state = AWAITS_APPROVAL if progress.awaits_approval else _spelled(progress.phase)
        states |= {(rollout, pool, name): name == state for name in STATES}
        is_under_way = progress.phase in ("Progressing", "Paused") and progress.began is not None
        waves[rollout, pool] = progress.wave + 1 if progress.wave is not None else 0
        begins[rollout, pool] = progress.began.timestamp() if is_under_way and progress.began is not None else 0.0
        counts = {"replaced": progress.replaced, "leaving": len(progress.claims), "held": len(progress.held_nodes)}
        nodes |= {(rollout, pool, kind): count for kind, count in counts.items()}
    for gauge, values in zip(_GAUGES, (states, waves, begins, nodes), strict=True):
        report(gauge, values, of=rollout)


def measure_only(rollouts: Collection[str]) -> None:
    """Set the gauges of all other NodeRollouts to 0."""
    for gauge in _GAUGES:
        end_all_but(gauge, rollouts)
