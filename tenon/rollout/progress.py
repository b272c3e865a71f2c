"""How the rollout of a NodePool goes on: from what it remembers and what is observed now to what it remembers next.

Nothing else decides about a rollout. The same input gives the same answer, so a workflow that replays or starts again
chooses the same nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tenon.apis.noderollout import NodePoolRollout, NodeRolloutSpec
from tenon.evolve import evolve
from tenon.kube.timestamps import time_text
from tenon.messages.rollout import NodesBefore, PoolProgress, WaveRecord
from tenon.rollout.gates import GateResult, GateVerdict, overall
from tenon.rollout.held_nodes import held_text, lingers, with_held_nodes
from tenon.rollout.nodes import PoolNode
from tenon.rollout.phases import begun, settled, stopped, upcoming_wave
from tenon.rollout.waves import RolloutNode, Wave, WaveState, next_wave, state_of
from tenon.sentences import counted, shortened

LOOK_AGAIN, LOOK_SELDOM = 30.0, 300.0
"""Seconds until a wave is looked at again, and until one is that may not begin now, or whose nodes cannot leave."""
MAX_HISTORY = 12
"""How many waves of a version are remembered: all NodePools of a rollout share a message of two megabytes."""
MAX_EVIDENCE = 120
"""The length of what is remembered of a gate."""
STUCK_AFTER = timedelta(minutes=30)
"""After that time without a change, a wave says how to find the reason."""


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
    starting_since: datetime | None = None
    """Since when nodes of the new version are being started and none became initialized (`starting_since`)."""
    before: NodesBefore | None = None
    """What the nodes are like, for the begin of the first wave; None if none can begin (`may_begin`)."""


def advance(progress: PoolProgress, spec: NodeRolloutSpec, observed: Observation, now: datetime) -> PoolProgress:
    """Return how the rollout of the NodePool goes on."""
    progress = _follow_specs(progress, observed)
    if progress.phase == "RolledBack" and any(node.revision == progress.target for node in observed.nodes):
        progress = evolve(progress, phase="RollingBack")  # a launch that was under way when the last one left
    if progress.phase == "Progressing":
        return _advance_waves(progress, spec, observed, now)
    if progress.phase == "RollingBack":
        return _go_back(progress, spec, observed, now)
    return progress


def may_begin(progress: PoolProgress, observed: Observation) -> bool:
    """Return whether the next check may begin a first wave, which must know what the nodes were like before."""
    if progress.before is not None:
        return False
    is_quiet = progress.phase == "Settled" and observed.newest in ("", progress.current)
    return not (is_quiet and not _drifted(observed))


def restored(row: Mapping[str, Any]) -> PoolProgress:
    """Return the rollout of a NodePool by what the status of its NodeRollout says, if nothing else remembers it.

    A version that was under way begins again with its first wave, and one that failed stays held.
    """
    status = NodePoolRollout.model_validate(row)
    progress = PoolProgress(
        pool=status.name, current=status.current_revision, message=status.message, cause=status.cause
    )
    if not status.current_revision or status.phase == "Settled":
        return progress
    started = begun(progress, status.target_revision or status.current_revision, "it begins again from the status")
    started = evolve(started, cause=status.cause or started.cause)
    return started if status.phase == "Progressing" else evolve(started, phase=status.phase, message=status.message)


def look_again(progress: PoolProgress, spec: NodeRolloutSpec) -> float | None:
    """Return the seconds until the rollout is looked at again; None if only a change or an operator moves it."""
    if progress.phase == "RollingBack":
        return LOOK_AGAIN
    if progress.phase != "Progressing":
        return None
    if progress.began is not None:
        return LOOK_SELDOM if progress.passed and progress.held_nodes else LOOK_AGAIN
    number = upcoming_wave(progress)
    needs_approval = number in spec.gates.approval and number not in progress.approved
    return None if needs_approval else LOOK_SELDOM


def has_new_version(progress: PoolProgress, node: PoolNode) -> bool:
    """Return whether a node has what the rollout brings. The others are what it is compared with."""
    if progress.target == progress.current and progress.first_began is not None and node.created < progress.first_began:
        return False
    return not _as_rollout_node(progress, node).outdated


def _follow_specs(progress: PoolProgress, observed: Observation) -> PoolProgress:
    """Begin with a new version, unless it is the one that runs or that failed."""
    newest, current, target = observed.newest, progress.current, progress.target
    if not newest:
        return progress
    if not current:
        return evolve(progress, current=newest, phase="Settled", message="all launches use this version")
    if progress.phase == "Settled" and newest == current and (drifted := _drifted(observed)):
        return begun(progress, current, f"{counted(drifted, 'node')} drifted")
    if newest in (current, target) and progress.phase != "RolledBack":
        if newest == target or not target or progress.phase in ("RollingBack", "Paused") or progress.aborted:
            return progress
        return stopped(progress, "RollingBack", "the specs describe the current version again")
    if newest == target or progress.phase == "RollingBack":
        return progress  # what failed stays held; a way back ends before a later version begins
    if newest == current:
        return evolve(settled(progress), message="the specs describe the current version again")
    started = begun(progress, newest, "a new version begins")
    return evolve(started, phase="Paused") if progress.phase == "Paused" else started


def _drifted(observed: Observation) -> int:
    return sum(node.drifted and not node.leaving for node in observed.nodes)


def _advance_waves(progress: PoolProgress, spec: NodeRolloutSpec, observed: Observation, now: datetime) -> PoolProgress:
    nodes = _rollout_nodes(progress, observed, now)
    if progress.wave is None or progress.began is None:
        return _begin_wave(progress, spec, observed, nodes, now)
    verdict = overall(observed.gates)
    if verdict is GateVerdict.FAIL:
        failed = "; ".join(_evidence_of(observed, verdict))
        ended = _record(progress, observed, now, f"failed: {failed}")
        goes_back = spec.on_failure == "Rollback" and progress.target != progress.current
        return stopped(ended, "RollingBack" if goes_back else "Halted", f"{_name(progress)} failed: {failed}")
    wave, began = Wave(progress.segment, progress.wave), progress.began
    progress = evolve(with_held_nodes(progress, observed.nodes, now), starting_since=observed.starting_since)
    # What is launched for pods during a wave has the version before. It must not keep the wave from its end.
    in_wave = [node for node in nodes if not (node.outdated and node.created > began)]
    state = _state_of_wave(progress, wave, spec, in_wave)
    if observed.held_back and not state.complete:
        leaving = sorted(node.claim for node in nodes if node.outdated and node.leaving)
        message = f"{_name(progress)} waits: {observed.held_back}"
        return evolve(progress, claims=leaving, replaced_at=None, soaking_since=None, message=message)
    if not state.complete:
        return _under_way(evolve(progress, replaced_at=None, soaking_since=None), state, now)
    progress = evolve(progress, claims=[], replaced=state.replaced, replaced_at=progress.replaced_at or now)
    if verdict is GateVerdict.WAIT:
        waits = "; ".join(_evidence_of(observed, verdict))
        return evolve(progress, soaking_since=None, message=f"{_name(progress)} is replaced and waits: {waits}")
    progress = evolve(progress, soaking_since=progress.soaking_since or now)
    if progress.soaking_since and now - progress.soaking_since < timedelta(seconds=spec.strategy.soak.seconds or 0):
        return evolve(progress, message=f"{_name(progress)} is replaced; the gates must hold for {spec.strategy.soak}")
    ended = evolve(
        _record(progress, observed, now, f"passed{held_text(progress)}", passed=True),
        began=None,
        replaced_at=None,
        soaking_since=None,
    )
    following = next_wave(wave, nodes, spec.strategy)
    if following is not None:
        approved = ended.approved if following.segment == wave.segment else []
        ended = evolve(ended, segment=following.segment, wave=following.index, approved=approved)
        return _begin_wave(ended, spec, observed, nodes, now)
    every_node = _as_rollout_nodes(ended, observed.nodes, now)
    if not any(node.outdated and not node.lingers for node in every_node):
        return evolve(settled(ended), current=progress.target, message="all waves passed")
    # All launches have the new version from now on. Warm nodes, and what was launched meanwhile, are replaced.
    last = len(spec.strategy.waves)
    approved = [*ended.approved, last]
    ended = evolve(ended, current=progress.target, segment="", wave=last - 1, approved=approved, passed=True)
    return _begin_wave(ended, spec, observed, _rollout_nodes(ended, observed, now), now)


def _state_of_wave(
    progress: PoolProgress, wave: Wave, spec: NodeRolloutSpec, nodes: Sequence[RolloutNode]
) -> WaveState:
    """Return how far a wave is. The last one passes without nodes that cannot leave, if it has replaced all others."""
    held_claims = _held_claims(progress)
    state = state_of(wave, nodes, spec.strategy, progress.claims, held_claims)
    is_last = wave.index == len(spec.strategy.waves) - 1
    if not held_claims or progress.passed or not is_last or not set(state.claims) <= set(held_claims):
        return state
    others = [node for node in nodes if node.claim not in held_claims]
    without_held = state_of(wave, others, spec.strategy, ())
    return without_held if without_held.complete and without_held.replaced else state


def _rollout_nodes(progress: PoolProgress, observed: Observation, now: datetime) -> list[RolloutNode]:
    """Return the nodes that waves are counted over. Without a new version, those that need no replacement are none.

    Before a new version has passed, warm nodes are none either: nothing runs there that could show a fault, and what is
    bought in place of one that leaves has the version before.
    """
    if progress.target != progress.current:
        return _as_rollout_nodes(progress, [node for node in observed.nodes if not node.warm], now)
    nodes = _as_rollout_nodes(progress, observed.nodes, now)
    return [
        node
        for node in nodes
        if node.outdated or (progress.first_began is not None and node.created >= progress.first_began)
    ]


def _evidence_of(observed: Observation, verdict: GateVerdict) -> list[str]:
    return [f"{result.gate}: {result.evidence}" for result in observed.gates if result.verdict is verdict]


def _begin_wave(
    progress: PoolProgress, spec: NodeRolloutSpec, observed: Observation, nodes: Sequence[RolloutNode], now: datetime
) -> PoolProgress:
    if progress.wave is None:
        first = next_wave(None, nodes, spec.strategy)
        assert first is not None  # every strategy has a wave
        progress = evolve(
            progress,
            segment=first.segment,
            wave=first.index,
            wave_count=len(spec.strategy.waves),
            before=progress.before or observed.before,
        )
    progress, number = evolve(progress, awaits_approval=False), upcoming_wave(progress)
    if number in spec.gates.approval and number not in progress.approved:
        return evolve(
            progress,
            claims=[],
            awaits_approval=True,
            message=f"wave {number} waits for an approval: run `tenon rollout approve {progress.pool}`",
        )
    if observed.held_back:
        return evolve(progress, claims=[], message=f"wave {number} waits: {observed.held_back}")
    progress = evolve(
        progress,
        began=now,
        first_began=progress.first_began or now,
        replaced_at=None,
        soaking_since=None,
        moved_at=now,
        starting_since=None,
    )
    wave = Wave(progress.segment, number - 1)
    state = state_of(wave, nodes, spec.strategy, progress.claims, _held_claims(progress))
    return _under_way(progress, state, now)


def _go_back(progress: PoolProgress, spec: NodeRolloutSpec, observed: Observation, now: datetime) -> PoolProgress:
    """Replace the nodes of the version that failed, as many at a time as the strategy allows."""
    progress = with_held_nodes(progress, observed.nodes, now)
    nodes = [_as_rollout_node(progress, node) for node in observed.nodes]
    last = Wave("", len(spec.strategy.waves) - 1)
    state = state_of(last, nodes, spec.strategy, progress.claims, _held_claims(progress))
    outdated = [node for node in nodes if node.outdated]
    if outdated:
        message = f"{counted(len(outdated), 'node')} of version {progress.target} left to replace"
        return evolve(progress, claims=list(state.claims), message=message + held_text(progress))
    if observed.newest == progress.current:
        return evolve(settled(progress), message="the specs describe the current version again")
    if observed.newest not in ("", progress.target):
        return begun(progress, observed.newest, "a new version begins")
    command = f"tenon rollout resume {progress.pool}"
    message = f"version {progress.target} is held until the specs change or somebody runs `{command}`"
    return evolve(progress, phase="RolledBack", claims=[], message=message)


def _held_claims(progress: PoolProgress) -> list[str]:
    return [held_node.claim for held_node in progress.held_nodes]


def _as_rollout_nodes(progress: PoolProgress, nodes: Sequence[PoolNode], now: datetime) -> list[RolloutNode]:
    return [_as_rollout_node(progress, node, lingers=lingers(node, now)) for node in nodes]


def _as_rollout_node(progress: PoolProgress, node: PoolNode, *, lingers: bool = False) -> RolloutNode:
    if progress.phase == "RollingBack":
        outdated = node.revision == progress.target
    elif progress.rotate_before is not None:
        outdated = node.created < progress.rotate_before
    elif progress.target == progress.current:
        outdated = node.drifted or node.revision not in ("", progress.target)
    else:
        outdated = node.revision != progress.target
    return RolloutNode(node.claim, node.zone, node.created, outdated, node.initialized, node.leaving, lingers)


def _record(
    progress: PoolProgress, observed: Observation, now: datetime, outcome: str, *, passed: bool = False
) -> PoolProgress:
    record = WaveRecord(
        name=_name(progress),
        began=progress.began or now,
        ended=now,
        outcome=outcome,
        passed=passed,
        evidence=[
            shortened(f"{result.gate}: {result.verdict}, {result.evidence}", MAX_EVIDENCE) for result in observed.gates
        ],
    )
    return evolve(progress, history=[*progress.history, record][-MAX_HISTORY:])


def _name(progress: PoolProgress) -> str:
    number = (progress.wave or 0) + 1
    return f"wave {number} in {progress.segment}" if progress.segment else f"wave {number}"


def _under_way(progress: PoolProgress, state: WaveState, now: datetime) -> PoolProgress:
    """Return a wave with the nodes that may be replaced now, and since when it has not got on."""
    claims = list(state.claims)
    moves = claims != progress.claims or state.replaced != progress.replaced or progress.moved_at is None
    moved_at = now if moves or progress.moved_at is None else progress.moved_at
    goal, leave = counted(state.goal, "node"), "leaves" if len(claims) == 1 else "leave"
    message = f"{_name(progress)}: {state.replaced} of {goal} replaced, {len(claims)} {leave} now"
    message += held_text(progress)
    if claims and not progress.held_nodes and now - moved_at > STUCK_AFTER:
        message += f"; no change since {time_text(moved_at)}: `tenon explain node {claims[0]}` says why"
    return evolve(progress, claims=claims, replaced=state.replaced, moved_at=moved_at, message=message)
