"""How a rollout enters its phases: it begins, is settled, or stops. Waves and the requests of operators share this."""

from __future__ import annotations

from tenon.evolve import evolve
from tenon.messages.rollout import PoolProgress


def begun(progress: PoolProgress, target: str, message: str) -> PoolProgress:
    """Return the rollout as it begins with a version. ``message`` says why."""
    cleared = evolve(settled(progress), approved=[], history=[])
    return evolve(cleared, target=target, phase="Progressing", message=message, cause=message)


def settled(progress: PoolProgress) -> PoolProgress:
    """Return the rollout without anything under way."""
    return evolve(
        progress,
        target="",
        phase="Settled",
        segment="",
        wave=None,
        began=None,
        awaits_approval=False,
        replaced_at=None,
        soaking_since=None,
        replaced=0,
        moved_at=None,
        first_began=None,
        passed=False,
        claims=[],
        waiting_since={},
        held_nodes=[],
        starting_since=None,
        before=None,
        aborted=False,
        rotate_before=None,
    )


def stopped(progress: PoolProgress, phase: str, message: str) -> PoolProgress:
    """Return the rollout in a phase in which its wave does not go on. ``message`` says why."""
    return evolve(
        progress,
        phase=phase,
        claims=[],
        awaits_approval=False,
        waiting_since={},
        held_nodes=[],
        starting_since=None,
        replaced_at=None,
        soaking_since=None,
        message=message,
    )


def upcoming_wave(progress: PoolProgress) -> int:
    """Return the number of the wave that waits or is under way, from 1.

    While a wave is under way, an approval is meant for the next one.
    """
    place = progress.wave or 0
    return place + 1 if progress.began is None else place + 2
