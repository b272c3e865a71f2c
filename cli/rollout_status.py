"""How far rollouts are by the status of NodeRollouts alone, which is there while Temporal is away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tenon.apis.noderollout import NodeRollout, NodeRolloutSpec
from tenon.apis.validation import parse
from tenon.messages.rollout import HeldNode, RolloutOperation, WaveRecord


@dataclass(frozen=True, slots=True)
class PoolView:
    """How far the rollout of one NodePool is."""

    pool: str
    phase: str = ""
    current: str = ""
    target: str = ""
    wave: int | None = None
    """The number of the wave, from 1."""
    message: str = ""
    cause: str = ""
    """Why the version began, and who asked for it."""
    operations: Sequence[RolloutOperation] = ()
    """What operators asked for, the latest last."""
    segment: str = ""
    """The zone of the wave; empty if that is not known, or if waves go over the whole NodePool."""
    began: datetime | None = None
    """When the wave began; None if that is not known, or while it waits."""
    held_nodes: Sequence[HeldNode] = ()
    """The nodes that cannot leave, so that no wave waits for them."""
    waves: Sequence[WaveRecord] = ()
    """The waves that ended, the latest last."""


@dataclass(frozen=True, slots=True)
class RolloutStatus:
    """A NodeRollout, and how far it is."""

    name: str
    spec: NodeRolloutSpec | None = None
    """None if it cannot be read."""
    spec_problem: str = ""
    pools: Sequence[PoolView] = field(default_factory=tuple)
    progress_problem: str = ""
    """Why waves and evidence are missing, as a sentence; empty if they are there, or were not asked for."""

    def wave_of(self, pool: PoolView) -> str:
        """Return the wave of a NodePool and how many there are, such as ``2/4``; empty before the first one."""
        if pool.wave is None:
            return ""
        return f"{pool.wave}/{len(self.spec.strategy.waves)}" if self.spec is not None else str(pool.wave)


def read_rollout_status(body: Mapping[str, Any]) -> RolloutStatus:
    """Read a NodeRollout. The status is read without its model, so that what a later release wrote is shown."""
    rollout, problems = parse(NodeRollout, {**body, "status": {}})
    rows = (body.get("status") or {}).get("nodePools") or ()
    return RolloutStatus(
        name=str(body["metadata"]["name"]),
        spec=rollout.spec if rollout is not None else None,
        spec_problem=str(problems[0]) if problems else "",
        pools=[_of_row(row) for row in rows if isinstance(row, Mapping)],
    )


def _of_row(row: Mapping[str, Any]) -> PoolView:
    wave = row.get("wave")
    return PoolView(
        pool=str(row.get("name") or ""),
        phase=str(row.get("phase") or "Settled"),
        current=str(row.get("currentRevision") or ""),
        target=str(row.get("targetRevision") or ""),
        wave=int(wave) if isinstance(wave, int | float) else None,
        message=str(row.get("message") or ""),
        cause=str(row.get("cause") or ""),
    )
