"""How the rollout of a NodePool goes on: from what it remembers and what is observed now to what it remembers next.

Nothing else decides about a rollout. The same input gives the same answer, so a workflow that replays or starts again
chooses the same nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tenon.apis.noderollout import NodeRolloutSpec
from tenon.errors import TenonError
from tenon.evolve import evolve
from tenon.messages.rollout import PoolProgress, RolloutRequest, WaveRecord
from tenon.rollout.gates import GateResult, Verdict, overall
from tenon.rollout.waves import RolloutNode, Wave, WaveState, next_wave, state_of
from tenon.sentences import counted

LOOK_AGAIN, LOOK_AT_WINDOWS = 30.0, 300.0
"""Seconds until a wave is looked at again, and until a wave that may not begin now is."""
MAX_HISTORY = 40
"""How many waves of a version are remembered."""
MAX_UNREADY = 200
"""How many controllers are remembered whose pods were not Ready before."""


class RolloutRequestError(TenonError):
    """An operator asks for something that the rollout cannot do now."""


@dataclass(frozen=True, slots=True)
class PoolNode:
    """A NodeClaim of the NodePool, as the cluster shows it."""

    claim: str
    zone: str
    created: datetime
    revision: str
    """The version that it has; empty if that is not known, which counts as an old one."""
    initialized: bool = True
    leaving: bool = False


@dataclass(frozen=True, slots=True)
class Observation:
    """What is seen of a NodePool."""

    newest: str
    """The version that the specs describe now; empty while its EC2NodeClass is not ready."""
    nodes: Sequence[PoolNode] = ()
    gates: Sequence[GateResult] = ()
    """What the gates say of the nodes with the new version."""
    held_back: str = ""
    """Why no wave may begin now, in a clause: a window is closed, nodes are frozen, or another NodePool comes first."""
    unready_owners: Collection[str] = ()
    """The UIDs of the controllers with pods that have not been Ready for longer than the gate allows."""


def advance(progress: PoolProgress, spec: NodeRolloutSpec, observed: Observation, now: datetime) -> PoolProgress:
    """Return how the rollout of the NodePool goes on."""
    progress = _follow_specs(progress, observed)
    if progress.phase == "Progressing":
        return _advance_waves(progress, spec, observed, now)
    if progress.phase == "RollingBack":
        return _go_back(progress, spec, observed)
    return progress


def look_again(progress: PoolProgress, spec: NodeRolloutSpec) -> float | None:
    """Return the seconds until the rollout is looked at again; None if only a change or an operator moves it."""
    if progress.phase == "RollingBack":
        return LOOK_AGAIN
    if progress.phase != "Progressing":
        return None
    if progress.began is not None:
        return LOOK_AGAIN
    number = _upcoming(progress)
    needs_approval = number in spec.gates.approval and number not in progress.approved
    return None if needs_approval else LOOK_AT_WINDOWS


def has_new_version(progress: PoolProgress, node: PoolNode) -> bool:
    """Return whether a node has what the rollout brings. The others are what it is compared with."""
    return not _as_rollout_node(progress, node).outdated


def requested(progress: PoolProgress, request: RolloutRequest, now: datetime) -> PoolProgress:
    """Return the rollout after an operator asked for something.

    Raises:
        RolloutRequestError: that is not possible now. The message says why.
    """
    phase, pool = progress.phase, progress.pool
    operator = request.operator
    asker = ", ".join(text for text in (operator.by, operator.ticket, operator.reason) if text)
    if request.action == "start":
        if phase != "Settled" or not progress.current:
            raise RolloutRequestError(f"the rollout of NodePool {pool} is {phase}: only a settled one can start again")
        begun = _begin(progress, progress.current, f"all nodes are replaced ({asker})")
        return evolve(begun, rotate_before=now)
    if request.action == "approve":
        if phase not in ("Progressing", "Paused"):
            raise RolloutRequestError(f"the rollout of NodePool {pool} is {phase}: no wave waits for an approval")
        number = operator.wave if operator.wave is not None else _upcoming(progress)
        if number < _upcoming(progress):
            raise RolloutRequestError(f"wave {number} has begun already: the next one is wave {_upcoming(progress)}")
        return evolve(
            progress, approved=sorted({*progress.approved, number}), message=f"wave {number} approved ({asker})"
        )
    if request.action == "pause":
        if phase != "Progressing":
            raise RolloutRequestError(f"the rollout of NodePool {pool} is {phase}: only one in progress can pause")
        return evolve(progress, phase="Paused", claims=[], soaking_since=None, message=f"paused ({asker})")
    if request.action == "resume":
        if phase == "Paused":
            return evolve(progress, phase="Progressing", message=f"continued ({asker})")
        if phase in ("Halted", "RolledBack"):
            released = _begin(progress, progress.target, f"released ({asker})")
            return evolve(released, rotate_before=progress.rotate_before)
        raise RolloutRequestError(f"the rollout of NodePool {pool} is {phase}: nothing is held")
    if request.action == "abort":
        if phase not in ("Progressing", "Paused", "RollingBack"):
            raise RolloutRequestError(f"the rollout of NodePool {pool} is {phase}: nothing is under way")
        return _stop(progress, "Halted", f"aborted ({asker})")
    if phase in ("Settled", "RolledBack", "RollingBack") or progress.target == progress.current:
        raise RolloutRequestError(f"the rollout of NodePool {pool} is {phase}: there is no version to go back from")
    return _stop(progress, "RollingBack", f"rolled back ({asker})")


def _follow_specs(progress: PoolProgress, observed: Observation) -> PoolProgress:
    """Begin with a new version, unless it is the one that runs or that failed."""
    newest, current, target = observed.newest, progress.current, progress.target
    if not newest:
        return progress
    if not current:
        return evolve(progress, current=newest, phase="Settled", message="all launches use this version")
    if newest in (current, target) and progress.phase != "RolledBack":
        if newest == target or not target or progress.phase in ("RollingBack", "Paused"):
            return progress
        return _stop(progress, "RollingBack", "the specs describe the current version again")
    if newest == target or progress.phase == "RollingBack":
        return progress  # what failed stays held; a way back ends before a later version begins
    if newest == current:
        return evolve(_cleared(progress), message="the specs describe the current version again")
    begun = _begin(progress, newest, "a new version begins")
    return evolve(begun, phase="Paused") if progress.phase == "Paused" else begun


def _advance_waves(progress: PoolProgress, spec: NodeRolloutSpec, observed: Observation, now: datetime) -> PoolProgress:
    nodes = [_as_rollout_node(progress, node) for node in observed.nodes]
    if progress.wave is None or progress.began is None:
        return _begin_wave(progress, spec, observed, nodes, now)
    verdict = overall(observed.gates)
    if verdict is Verdict.FAIL:
        failed = "; ".join(
            f"{result.gate}: {result.evidence}" for result in observed.gates if result.verdict is verdict
        )
        ended = _record(progress, observed, now, f"failed: {failed}")
        goes_back = spec.on_failure == "Rollback" and progress.target != progress.current
        return _stop(ended, "RollingBack" if goes_back else "Halted", f"{_name(progress)} failed: {failed}")
    wave = Wave(progress.segment, progress.wave)
    state = state_of(wave, nodes, spec.strategy, progress.claims)
    if observed.held_back and not state.complete:
        leaving = sorted(node.claim for node in nodes if node.outdated and node.leaving)
        message = f"{_name(progress)} waits: {observed.held_back}"
        return evolve(progress, claims=leaving, soaking_since=None, message=message)
    if not state.complete:
        return evolve(progress, claims=list(state.claims), soaking_since=None, message=_under_way(progress, state))
    since = progress.soaking_since or now
    progress = evolve(progress, claims=[], soaking_since=since)
    if now - since < timedelta(seconds=spec.strategy.soak.seconds or 0) or verdict is Verdict.WAIT:
        return evolve(progress, message=f"{_name(progress)} is replaced; the gates must hold for {spec.strategy.soak}")
    ended = _record(progress, observed, now, "passed")
    following = next_wave(wave, nodes, spec.strategy)
    if following is None and not any(node.outdated for node in nodes):
        return evolve(_cleared(ended), current=progress.target, message="all waves passed")
    if following is None:  # nodes that were launched meanwhile: the last wave of the first segment that has some
        straggler = next(node for node in sorted(nodes, key=lambda node: (node.zone, node.claim)) if node.outdated)
        following = Wave(straggler.zone if progress.segment else "", len(spec.strategy.waves) - 1)
    ended = evolve(ended, segment=following.segment, wave=following.index, began=None, soaking_since=None)
    return _begin_wave(ended, spec, observed, nodes, now)


def _begin_wave(
    progress: PoolProgress, spec: NodeRolloutSpec, observed: Observation, nodes: Sequence[RolloutNode], now: datetime
) -> PoolProgress:
    if progress.wave is None:
        first = next_wave(None, nodes, spec.strategy)
        assert first is not None  # every strategy has a wave
        unready = sorted(observed.unready_owners)[:MAX_UNREADY]
        progress = evolve(progress, segment=first.segment, wave=first.index, unready_before=unready)
    number = _upcoming(progress)
    if number in spec.gates.approval and number not in progress.approved:
        return evolve(
            progress,
            claims=[],
            message=f"wave {number} waits for an approval: run `tenon rollout approve {progress.pool}`",
        )
    if observed.held_back:
        return evolve(progress, claims=[], message=f"wave {number} waits: {observed.held_back}")
    progress = evolve(progress, began=now, soaking_since=None)
    state = state_of(Wave(progress.segment, number - 1), nodes, spec.strategy, progress.claims)
    return evolve(progress, claims=list(state.claims), message=_under_way(progress, state))


def _go_back(progress: PoolProgress, spec: NodeRolloutSpec, observed: Observation) -> PoolProgress:
    """Replace the nodes of the version that failed, as many at a time as the strategy allows."""
    nodes = [_as_rollout_node(progress, node) for node in observed.nodes]
    last = Wave("", len(spec.strategy.waves) - 1)
    state = state_of(last, nodes, spec.strategy, progress.claims)
    outdated = [node for node in nodes if node.outdated]
    if outdated:
        message = f"{counted(len(outdated), 'node')} of version {progress.target} left to replace"
        return evolve(progress, claims=list(state.claims), message=message)
    if observed.newest == progress.current:
        return evolve(_cleared(progress), message="the specs describe the current version again")
    command = f"tenon rollout resume {progress.pool}"
    message = f"version {progress.target} is held until the specs change or somebody runs `{command}`"
    return evolve(progress, phase="RolledBack", claims=[], message=message)


def _as_rollout_node(progress: PoolProgress, node: PoolNode) -> RolloutNode:
    if progress.phase == "RollingBack":
        outdated = node.revision == progress.target
    elif progress.rotate_before is not None:
        outdated = node.created < progress.rotate_before
    else:
        outdated = node.revision != progress.target
    return RolloutNode(node.claim, node.zone, node.created, outdated, node.initialized, node.leaving)


def _begin(progress: PoolProgress, target: str, message: str) -> PoolProgress:
    cleared = evolve(_cleared(progress), approved=[], history=[])
    return evolve(cleared, target=target, phase="Progressing", message=message)


def _cleared(progress: PoolProgress) -> PoolProgress:
    return evolve(
        progress,
        target="",
        phase="Settled",
        segment="",
        wave=None,
        began=None,
        soaking_since=None,
        claims=[],
        unready_before=[],
        rotate_before=None,
    )


def _stop(progress: PoolProgress, phase: str, message: str) -> PoolProgress:
    return evolve(progress, phase=phase, claims=[], soaking_since=None, message=message)


def _record(progress: PoolProgress, observed: Observation, now: datetime, outcome: str) -> PoolProgress:
    record = WaveRecord(
        name=_name(progress),
        began=progress.began or now,
        ended=now,
        outcome=outcome,
        evidence=[f"{result.gate}: {result.verdict}, {result.evidence}" for result in observed.gates],
    )
    return evolve(progress, history=[*progress.history, record][-MAX_HISTORY:])


def _upcoming(progress: PoolProgress) -> int:
    """Return the number of the wave that waits or is under way, from 1.

    While a wave is under way, an approval is meant for the next one.
    """
    place = progress.wave or 0
    return place + 1 if progress.began is None else place + 2


def _name(progress: PoolProgress) -> str:
    number = (progress.wave or 0) + 1
    return f"wave {number} in {progress.segment}" if progress.segment else f"wave {number}"


def _under_way(progress: PoolProgress, state: WaveState) -> str:
    return (
        f"{_name(progress)}: {state.replaced} of {counted(state.goal, 'node')} replaced, {len(state.claims)} leave now"
    )
