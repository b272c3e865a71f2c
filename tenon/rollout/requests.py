"""What operators may ask of a rollout in each phase: start, approve, pause, resume, abort and roll back."""

from __future__ import annotations

from datetime import datetime

from tenon.errors import TenonError
from tenon.evolve import evolve
from tenon.messages.rollout import PoolProgress, RolloutOperation, RolloutOperator, RolloutRequest
from tenon.rollout.page import EXAMPLE
from tenon.rollout.phases import begun, settled, stopped, upcoming_wave
from tenon.sentences import shortened

MAX_ASKER = 300
"""The length of what a message says of an operator and the reason."""
MAX_OPERATIONS = 8
"""How many requests of operators are remembered for each NodePool."""


class RolloutRequestError(TenonError):
    """An operator asks for something that the rollout cannot do now."""


def why_invalid(operator: RolloutOperator) -> str:
    """Return what a request lacks; empty if it is complete."""
    return "" if operator.by.strip() else f"Say who asks, for example {EXAMPLE}."


def requested(progress: PoolProgress, request: RolloutRequest, now: datetime) -> PoolProgress:
    """Return the rollout after an operator asked for something.

    Raises:
        RolloutRequestError: that is not possible now. The message says why.
    """
    operator = request.operator
    operation = RolloutOperation(
        action=request.action,
        at=now,
        by=shortened(operator.by, MAX_ASKER),
        reason=shortened(operator.reason, MAX_ASKER),
        ticket=shortened(operator.ticket, MAX_ASKER),
        wave=operator.wave,
    )
    return evolve(
        _after_request(progress, request, now), operations=[*progress.operations, operation][-MAX_OPERATIONS:]
    )


def _after_request(progress: PoolProgress, request: RolloutRequest, now: datetime) -> PoolProgress:
    phase, pool = progress.phase, progress.pool
    operator = request.operator
    texts = (operator.by, operator.ticket, operator.reason)
    asker = shortened(", ".join(" ".join(text.split()) for text in texts if text), MAX_ASKER)
    if request.action == "start":
        if phase != "Settled" or not progress.current:
            raise RolloutRequestError(f"the rollout of NodePool {pool} is {phase}: only a settled one can start again")
        started = begun(progress, progress.current, f"all nodes are replaced ({asker})")
        return evolve(started, rotate_before=now)
    if request.action == "approve":
        if phase not in ("Progressing", "Paused"):
            raise RolloutRequestError(f"the rollout of NodePool {pool} is {phase}: no wave waits for an approval")
        number = operator.wave if operator.wave is not None else upcoming_wave(progress)
        if progress.wave_count and number > progress.wave_count:
            raise RolloutRequestError(f"there is no wave {number}: the last one is wave {progress.wave_count}")
        if number < upcoming_wave(progress):
            raise RolloutRequestError(
                f"wave {number} has begun already: the next one is wave {upcoming_wave(progress)}"
            )
        return evolve(
            progress, approved=sorted({*progress.approved, number}), message=f"wave {number} approved ({asker})"
        )
    if request.action == "pause":
        if phase != "Progressing":
            raise RolloutRequestError(f"the rollout of NodePool {pool} is {phase}: only one in progress can pause")
        paused = stopped(progress, "Paused", f"paused ({asker})")
        return evolve(paused, replaced_at=progress.replaced_at, held_nodes=progress.held_nodes)
    if request.action == "resume":
        if phase == "Paused":
            return evolve(progress, phase="Progressing", message=f"continued ({asker})")
        if phase in ("Halted", "RolledBack"):
            released = begun(progress, progress.target, f"released ({asker})")
            return evolve(released, rotate_before=progress.rotate_before, before=progress.before)
        raise RolloutRequestError(f"the rollout of NodePool {pool} is {phase}: nothing is held")
    if request.action == "abort":
        if progress.rotate_before is not None and phase in ("Progressing", "Paused", "Halted"):
            return evolve(settled(progress), message=f"aborted ({asker})")
        if phase not in ("Progressing", "Paused", "RollingBack"):
            raise RolloutRequestError(f"the rollout of NodePool {pool} is {phase}: nothing is under way")
        return evolve(stopped(progress, "Halted", f"aborted ({asker})"), aborted=True)
    if phase in ("Settled", "RolledBack", "RollingBack") or progress.target == progress.current:
        raise RolloutRequestError(f"the rollout of NodePool {pool} is {phase}: there is no version to go back from")
    return evolve(stopped(progress, "RollingBack", f"rolled back ({asker})"), aborted=False)
