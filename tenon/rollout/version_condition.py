"""The condition with which a NodePool and its EC2NodeClass say that nodes do not run the newest version, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from tenon.apis.common import Condition
from tenon.apis.conditions import clear_condition, set_condition
from tenon.rollout.revisions import Revision
from tenon.rollout.versions import PoolPhase, PoolRollout

VERSION_HELD = "VersionHeld"
"""Launches do not follow the newest specs, because of a rollout. Set only if so; not one of READY_DEPENDENTS."""

_REASONS = {
    PoolPhase.SETTLED: "AwaitingRollout",
    PoolPhase.PROGRESSING: "RollingOut",
    PoolPhase.PAUSED: "RolloutPaused",
    PoolPhase.HALTED: "RolloutHalted",
    PoolPhase.ROLLING_BACK: "RollingBack",
    PoolPhase.ROLLED_BACK: "RolledBack",
}
_WHY = {
    PoolPhase.SETTLED: "which no rollout has reached yet",
    PoolPhase.PROGRESSING: "which is being rolled out and has not passed yet",
    PoolPhase.PAUSED: "whose rollout is paused",
    PoolPhase.HALTED: "whose rollout is halted",
    PoolPhase.ROLLING_BACK: "which failed and is being rolled back",
    PoolPhase.ROLLED_BACK: "which failed and was rolled back",
}


def held_sentence(rollout: PoolRollout, newest: Revision | None) -> str:
    """Say which version a NodePool launches instead of the newest, and why; empty if it launches the newest."""
    if not rollout.current or (newest is not None and newest.digest == rollout.current):
        return ""
    later = f"version {newest.digest}" if newest is not None else "the newest version"
    unresolved = "" if newest is not None else ", and its EC2NodeClass is not resolved yet"
    if newest is None and not rollout.target:
        return ""
    message = f": {rollout.message.rstrip('.')}" if rollout.message else ""
    return (
        f"New nodes of NodePool {rollout.pool} have version {rollout.current}, the last one that passed. NodeRollout "
        f"{rollout.rollout} keeps them from {later}, {_WHY[rollout.phase]}{unresolved}{message}"
    )


def with_version_held(
    conditions: Sequence[Condition],
    rollouts: Mapping[str, tuple[PoolRollout, Revision | None]],
    *,
    now: datetime,
    observed_generation: int | None,
) -> list[Condition]:
    """Set the condition of an object, or clear it.

    Args:
        conditions: those of the object.
        rollouts: by name, the NodePools under a rollout that the object is about, each with its newest version.
        now: the current time.
        observed_generation: the generation of the object.
    """
    sentences = {pool: held_sentence(rollout, newest) for pool, (rollout, newest) in sorted(rollouts.items())}
    held_pools = {pool: text for pool, text in sentences.items() if text}
    if not held_pools:
        return clear_condition(conditions, VERSION_HELD)
    first = rollouts[next(iter(held_pools))][0]
    return set_condition(
        conditions,
        VERSION_HELD,
        "True",
        now=now,
        reason=_REASONS[first.phase],
        message=". ".join(held_pools.values())[:1000],
        observed_generation=observed_generation,
    )
