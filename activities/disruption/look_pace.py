"""When the next look for moves begins: after a pause, when enough nodes are due, or when one may find more (DIS-39).

A look at a part of the nodes is followed by one at the next part. A round is the looks at all nodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from activities.cluster_view.interfaces import ClusterView
from activities.provisioning.batching import Batcher
from activities.provisioning.launch_refusals import LaunchRefusals
from tenon.disruption.look_facts import LookFacts, look_facts
from tenon.disruption.model import Situation
from tenon.disruption.rules.consolidatable import moves_from, settles_at
from tenon.disruption.rules.repair import repair_of

LOOK_SECONDS = 10.0
"""Seconds between two looks, as in Karpenter."""
BUSY_PAUSE_FACTOR = 10.0
"""A look is followed by a pause of this many times its CPU time: looks may use 10 % of a core."""
PAUSE_FACTOR = 100.0
"""After a round of looks that found nothing, the same until something changes that may let a look find more (DIS-39).
Looks at a cluster at rest use 1 % of a core.
"""
MAX_PAUSE = 300.0
SETTLE_STEP = timedelta(seconds=30)
"""A round waits while more nodes become due within so short a time of each other (`settles_at`)."""
MAX_SETTLE = 60.0
"""Seconds after which a round begins although more nodes become due: in a busy cluster, that never ends."""


def pause_after(computed: float) -> float:
    """Return the seconds from the end of a look, which took this CPU time, to the next one."""
    return min(MAX_PAUSE, max(LOOK_SECONDS, BUSY_PAUSE_FACTOR * computed))


def rest_after(computed: float) -> float:
    """Return the seconds that looks rest after a round that found nothing and took this CPU time (DIS-39)."""
    return min(MAX_PAUSE, max(LOOK_SECONDS, PAUSE_FACTOR * computed))


class LookPace:
    """When looks begin, and how long they rest."""

    def __init__(self, view: ClusterView, batcher: Batcher, refusals: LaunchRefusals) -> None:
        self._view = view
        self._refusals = refusals
        self._batcher = batcher
        self._due = 0.0
        """When the next look may start, in the event loop's time."""
        self._rests_until = 0.0
        """Until then it starts only if something has changed that may let it find more than the last round."""
        self._ready_since: float | None = None
        """Since when a round waits for more nodes to become due, in the event loop's time; None if none waits."""
        self._last_facts: LookFacts | None = None
        """The facts at the start of the last round."""
        self._computed = 0.0
        """The CPU seconds of the round that runs, of which each look at a large cluster is a part."""
        self._computed_before = 0.0
        """Those of its looks before the one that runs."""
        self._found_moves = False
        """Whether a look of this round found a command."""

    def is_due(self) -> bool:
        """Whether the pause before the next look is over."""
        return _clock() >= self._due

    def due_in(self) -> float:
        """Return in how many seconds a look may be due."""
        return max(0.05, self._due - _clock())

    def lets_begin(self, outline: Situation, *, new_round: bool) -> bool:
        """Whether a look that is due begins now. If it does not, this says when it is due again.

        Args:
            outline: the situation without its model.
            new_round: whether the look would begin a round.
        """
        now, quiet = _clock(), self._view.quiet_since()
        if (wait := _idle_for(outline, quiet)) > 0:
            self._due = now + wait
            self._ready_since = None
            return False
        if self._batcher.undecided():
            self._due = now + 1.0  # pods come first: their plan changes the cluster in a moment
            return False
        used, released = self._view.requests_on_nodes(), self._view.pods_released()
        evictions_allowed, unavailable = self._view.evictions_allowed(), self._refusals.unavailable()
        facts = look_facts(
            replace(outline, quiet_since=quiet), used, released, evictions_allowed, unavailable, self._last_facts
        )
        if now < self._rests_until and self._last_facts is not None and not facts.offer_more_than(self._last_facts):
            self._due = min(self._rests_until, now + LOOK_SECONDS)
            self._ready_since = None
            return False
        if new_round:
            if (wait := self._settles_in(outline, quiet, now)) > 0:
                self._due = now + wait
                return False
            self._last_facts = facts
        return True

    def _settles_in(self, situation: Situation, quiet_since: Mapping[str, datetime], clock: float) -> float:
        """Return for how many seconds a round that may begin should wait for nodes that become due (`settles_at`)."""
        if _is_urgent(situation):
            return 0.0
        if self._ready_since is None:
            self._ready_since = clock
        settled = settles_at(situation.nodes, situation.policies, quiet_since, situation.now, SETTLE_STEP)
        wait = min((settled - situation.now).total_seconds(), self._ready_since + MAX_SETTLE - clock)
        if wait <= 0:
            self._ready_since = None
        return wait

    def look_begins(self, *, new_round: bool) -> None:
        """Note that a look begins."""
        if new_round:
            self._computed, self._found_moves = 0.0, False
        self._computed_before = self._computed

    def add(self, seconds: float) -> None:
        """Add CPU seconds to the look that runs."""
        self._computed += seconds

    def look_ends(self, *, found_moves: bool, ends_round: bool, at_once: bool = False) -> None:
        """Set when the next look is due, and whether looks rest: after a round that tried all nodes and found nothing.

        Args:
            found_moves: whether the look found a command.
            ends_round: whether the look tried all nodes that were left of its round.
            at_once: whether the next look follows at once, because this one began a repair (N15-129).
        """
        self._found_moves |= found_moves
        rests = ends_round and not self._found_moves
        self._pause(pause_after(self._computed - self._computed_before), rest_after(self._computed) if rests else None)
        if at_once:
            self._due = _clock()

    def look_failed(self) -> None:
        """Set when the next look is due after one that raised an error: soon, and whatever has changed."""
        self._pause(pause_after(0.0))

    def retry_soon(self) -> None:
        """Set when the next look is due after one whose result could not be used."""
        self._due = _clock() + LOOK_SECONDS

    def _pause(self, seconds: float, rest: float | None = None) -> None:
        now = _clock()
        self._due = now + seconds
        self._rests_until = now + (pause_after(0.0) if rest is None else rest)


def _clock() -> float:
    return asyncio.get_running_loop().time()


def _idle_for(situation: Situation, quiet_since: Mapping[str, datetime]) -> float:
    """Return for how many seconds no node with pods has to leave; 0 if a look is worth its time."""
    if _is_urgent(situation):
        return 0.0
    due = moves_from(situation.nodes, situation.policies, quiet_since)
    if due is None:
        return LOOK_SECONDS
    return min(LOOK_SECONDS, max(0.0, (due - situation.now).total_seconds()))


def _is_urgent(situation: Situation) -> bool:
    """Whether a node drifted or is to be repaired. Such a node does not wait until the pods of the cluster settle."""
    return any(node.drifted or repair_of(node, situation) is not None for node in situation.nodes)
