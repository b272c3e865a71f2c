"""When the next pass for moves begins: after a pause, when enough nodes are due, or when one may find more (DIS-39).

A pass over a part of the nodes is followed by one over the next part. A round is the passes over all nodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from activities.cluster_view.interfaces import ClusterView
from activities.provisioning.batching import Batcher
from activities.provisioning.launch_refusals import LaunchRefusals
from tenon.disruption import pass_pauses
from tenon.disruption.pass_facts import PassFacts, pass_facts
from tenon.disruption.rules.consolidatable import moves_from, settles_at
from tenon.disruption.rules.unhealthy import repair_of
from tenon.disruption.situation import Situation


class PassPace:
    """When passes begin, and how long they rest."""

    def __init__(self, view: ClusterView, batcher: Batcher, refusals: LaunchRefusals) -> None:
        self._view = view
        self._refusals = refusals
        self._batcher = batcher
        self._due = 0.0
        """When the next pass may start, in the event loop's time."""
        self._rests_until = 0.0
        """Until then it starts only if something has changed that may let it find more than the last round."""
        self._ready_since: float | None = None
        """Since when a round waits for more nodes to become due, in the event loop's time; None if none waits."""
        self._last_facts: PassFacts | None = None
        """The facts at the start of the last round."""
        self._computed = 0.0
        """The CPU seconds of the round that runs, of which each pass over a large cluster is a part."""
        self._computed_before = 0.0
        """Those of its passes before the one that runs."""
        self._found_moves = False
        """Whether a pass of this round found a command."""

    def is_due(self) -> bool:
        """Whether the pause before the next pass is over."""
        return _clock() >= self._due

    def due_in(self) -> float:
        """Return in how many seconds a pass may be due."""
        return max(0.05, self._due - _clock())

    def lets_begin(self, outline: Situation, *, new_round: bool) -> bool:
        """Whether a pass that is due begins now. If it does not, this says when it is due again.

        Args:
            outline: the situation without its model.
            new_round: whether the pass would begin a round.
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
        facts = pass_facts(
            replace(outline, quiet_since=quiet), used, released, evictions_allowed, unavailable, self._last_facts
        )
        if now < self._rests_until and self._last_facts is not None and not facts.offer_more_than(self._last_facts):
            self._due = min(self._rests_until, now + pass_pauses.PASS_SECONDS)
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
        settled = settles_at(situation.nodes, situation.policies, quiet_since, situation.now, pass_pauses.SETTLE_STEP)
        wait = min((settled - situation.now).total_seconds(), self._ready_since + pass_pauses.MAX_SETTLE - clock)
        if wait <= 0:
            self._ready_since = None
        return wait

    def pass_begins(self, *, new_round: bool) -> None:
        """Note that a pass begins."""
        if new_round:
            self._computed, self._found_moves = 0.0, False
        self._computed_before = self._computed

    def add(self, seconds: float) -> None:
        """Add CPU seconds to the pass that runs."""
        self._computed += seconds

    def pass_ends(self, *, found_moves: bool, ends_round: bool, at_once: bool = False) -> None:
        """Set when the next pass is due, and whether passes rest: after a round that tried all nodes and found nothing.

        Args:
            found_moves: whether the pass found a command.
            ends_round: whether the pass tried all nodes that were left of its round.
            at_once: whether the next pass follows at once, because this one began a repair (N15-129).
        """
        self._found_moves |= found_moves
        rests = ends_round and not self._found_moves
        self._pause(
            pass_pauses.pause_after(self._computed - self._computed_before),
            pass_pauses.rest_after(self._computed) if rests else None,
        )
        if at_once:
            self._due = self._rests_until = _clock()  # for the facts of a pass, the other unhealthy nodes are no change

    def pass_failed(self) -> None:
        """Set when the next pass is due after one that raised an error: soon, and whatever has changed."""
        self._pause(pass_pauses.pause_after(0.0))

    def retry_soon(self) -> None:
        """Set when the next pass is due after one whose result could not be used."""
        self._due = _clock() + pass_pauses.PASS_SECONDS

    def _pause(self, seconds: float, rest: float | None = None) -> None:
        now = _clock()
        self._due = now + seconds
        self._rests_until = now + (pass_pauses.pause_after(0.0) if rest is None else rest)


def _clock() -> float:
    return asyncio.get_running_loop().time()


def _idle_for(situation: Situation, quiet_since: Mapping[str, datetime]) -> float:
    """Return for how many seconds no node with pods has to leave; 0 if a pass is worth its time."""
    if _is_urgent(situation):
        return 0.0
    due = moves_from(situation.nodes, situation.policies, quiet_since)
    if due is None:
        return pass_pauses.PASS_SECONDS
    return min(pass_pauses.PASS_SECONDS, max(0.0, (due - situation.now).total_seconds()))


def _is_urgent(situation: Situation) -> bool:
    """Whether a node drifted or is to be repaired. Such a node does not wait until the pods of the cluster settle."""
    return any(
        node.drifted or situation.rollout_replaces(node) is not None or repair_of(node, situation) is not None
        for node in situation.nodes
    )
