"""What happened to a rollout between two states of it, for events on its NodeRollout and its NodePools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tenon.kube.event_reasons import EventReason
from tenon.messages.rollout import PoolProgress, RolloutAnnouncement

_ENDS = {
    "Halted": EventReason.ROLLOUT_HALTED,
    "RollingBack": EventReason.ROLLOUT_ROLLING_BACK,
    "RolledBack": EventReason.ROLLOUT_ROLLED_BACK,
}
"""By phase, the event of its begin."""


def announcements(before: Sequence[PoolProgress], after: Sequence[PoolProgress]) -> list[RolloutAnnouncement]:
    """Return what to tell about each NodePool, in the order in which it happened."""
    earlier = {progress.pool: progress for progress in before}
    return [
        RolloutAnnouncement(pool=progress.pool, reason=reason, message=message)
        for progress in after
        for reason, message in _of_pool(earlier.get(progress.pool, PoolProgress(pool=progress.pool)), progress)
    ]


def _of_pool(before: PoolProgress, after: PoolProgress) -> Iterator[tuple[EventReason, str]]:
    version = f"NodePool {after.pool}, version {after.target or before.target or after.current}"
    ended = [wave for wave in after.history if wave not in before.history]
    passed = [wave for wave in ended if wave.passed]
    for wave in passed:
        yield EventReason.ROLLOUT_WAVE_PASSED, f"{version}: {wave.name} {wave.outcome}"
    if passed and not before.passed and (after.passed or after.phase == "Settled"):
        yield EventReason.ROLLOUT_PASSED, f"{version}: all waves passed, and every launch has this version"
    if after.phase != before.phase and after.phase in _ENDS:
        yield _ENDS[after.phase], f"{version}: {after.message}"
    if after.awaits_approval and not (before.awaits_approval and before.wave == after.wave):
        yield EventReason.ROLLOUT_AWAITS_APPROVAL, f"{version}: {after.message}"
    if after.phase == "Progressing" and after.began is not None and after.began != before.began:
        yield EventReason.ROLLOUT_WAVE_BEGAN, f"{version}: {after.message}"
    held_before = {held_node.claim for held_node in before.held_nodes}
    for held_node in after.held_nodes:
        if held_node.claim not in held_before:
            yield EventReason.ROLLOUT_NODE_HELD, f"{version}: {held_node.claim} cannot leave: {held_node.why}"
