"""Which nodes of a rollout are replaced next.

A wave is a number of nodes that have the new version at its end. Nodes that are being replaced count as if they had it
already, and twice while they run next to their replacement: too few nodes are chosen then rather than too many.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from tenon.apis.noderollout import RolloutStrategy

_FLEET = ""


@dataclass(frozen=True, slots=True)
class RolloutNode:
    """One NodeClaim of a NodePool under a rollout."""

    claim: str
    zone: str
    created: datetime
    outdated: bool
    """Whether it must be replaced: because of its version, or because its NodePool is rotated."""
    initialized: bool = True
    leaving: bool = False
    lingers: bool = False
    """It drains for so long that no wave waits for its end."""


@dataclass(frozen=True, slots=True)
class Wave:
    """A place in the order of waves."""

    segment: str
    """The zone; empty if the waves go over the whole NodePool."""
    index: int
    """The place among the waves of the strategy, from 0."""


@dataclass(frozen=True, slots=True)
class WaveState:
    """How far a wave is, and which nodes may be replaced now."""

    claims: tuple[str, ...]
    """The NodeClaims that may be replaced now, also those that leave already, by name."""
    replaced: int
    """How many nodes of the segment have the new version and are initialized."""
    goal: int
    """How many must have it at the end of the wave."""

    @property
    def complete(self) -> bool:
        """Whether the wave has replaced all that it should."""
        return not self.claims and self.replaced >= self.goal


def share(text: str, count: int) -> int:
    """Return how many of ``count`` nodes a number or a percentage means. Percentages round up, as in budgets."""
    return math.ceil(int(text[:-1]) * count / 100) if text.endswith("%") else int(text)


def goals(waves: Sequence[str], count: int) -> tuple[int, ...]:
    """Return how many of ``count`` nodes have the new version at the end of each wave. No wave goes back."""
    reached: list[int] = []
    for text in waves:
        reached.append(max(min(share(text, count), count), reached[-1] if reached else 0))
    return tuple(reached)


def segments(nodes: Iterable[RolloutNode], strategy: RolloutStrategy) -> tuple[str, ...]:
    """Return the segments that get the new version one after the other."""
    if strategy.order != "Zone":
        return (_FLEET,)
    return tuple(sorted({node.zone for node in nodes if node.zone})) or (_FLEET,)  # one without has no instance yet


def next_wave(wave: Wave | None, nodes: Iterable[RolloutNode], strategy: RolloutStrategy) -> Wave | None:
    """Return the wave after this one, the first one after None, and None after the last one."""
    names = segments(nodes, strategy)
    if wave is None:
        return Wave(names[0], 0)
    if wave.index + 1 < len(strategy.waves):
        return Wave(wave.segment, wave.index + 1)
    if wave.segment == _FLEET:
        return None
    later = [name for name in names if name > wave.segment]
    return Wave(later[0], 0) if later else None


def state_of(
    wave: Wave,
    nodes: Sequence[RolloutNode],
    strategy: RolloutStrategy,
    begun: Collection[str],
    held_claims: Sequence[str] = (),
) -> WaveState:
    """Return which nodes may be replaced now in a wave.

    Args:
        wave: the wave that is under way.
        nodes: all nodes of the NodePool.
        strategy: the strategy of the rollout.
        begun: the NodeClaims that were chosen before. They stay chosen while they exist.
        held_claims: the NodeClaims that could not leave. They are chosen only if no other one is left, in this order.
    """
    inside = [node for node in nodes if not wave.segment or node.zone == wave.segment]
    present = [node for node in inside if node.outdated and (node.claim in begun or node.leaving) and not node.lingers]
    updated = [node for node in inside if not node.outdated and not node.leaving]
    waiting = [node for node in inside if node.outdated and node.claim not in begun and not node.leaving]
    size = len(updated) + len(waiting)
    last = wave.index == len(strategy.waves) - 1
    goal = goals(strategy.waves, size)[wave.index] if not last else size
    room = len(waiting) if last else max(0, goal - len(updated) - len(present))
    everywhere = [node for node in nodes if node.outdated and (node.claim in begun or node.leaving)]
    starting = sum(1 for node in nodes if not node.outdated and not node.initialized)
    unavailable = share(strategy.max_unavailable, len(nodes) - len(everywhere)) - len(everywhere) - starting
    count = max(0, min(room, unavailable))
    turns = {claim: turn for turn, claim in enumerate(held_claims, start=1)}
    next_nodes = sorted(waiting, key=lambda node: (turns.get(node.claim, 0), node.created, node.claim))[:count]
    return WaveState(
        claims=tuple(sorted(node.claim for node in [*present, *next_nodes])),
        replaced=sum(1 for node in updated if node.initialized),
        goal=max(goal, len(updated) + len(present) + len(next_nodes)),
    )


def foreseen_waves(nodes: Sequence[RolloutNode], strategy: RolloutStrategy) -> list[tuple[Wave, tuple[str, ...]]]:
    """Return the waves that replace these nodes if every gate holds and no node comes or goes, each with NodeClaims.

    A wave without NodeClaims replaces nothing, because an earlier one has reached its goal. `state_of` chooses within a
    wave which nodes are replaced first, as many at a time as ``maxUnavailable`` allows.
    """
    foreseen = []
    remaining = {node.claim: node for node in nodes}
    wave = next_wave(None, nodes, strategy)
    while wave is not None:
        everything_unavailable = strategy.model_copy(update={"max_unavailable": "100%"})
        claims = state_of(wave, list(remaining.values()), everything_unavailable, ()).claims
        foreseen.append((wave, claims))
        for claim in claims:
            remaining[claim] = replace(remaining[claim], outdated=False, leaving=False, initialized=True)
        wave = next_wave(wave, nodes, strategy)
    return foreseen
