"""When the model looks for moves, as the worker does: once a node is due, and not while others become due (DIS-39)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tenon.disruption.nodes import ManagedNode
from tenon.disruption.pass_pauses import MAX_SETTLE, PASS_SECONDS, SETTLE_STEP, pause_after
from tenon.disruption.pool_policy import PoolPolicy
from tenon.disruption.rules.consolidatable import moves_from, settles_at
from tenon.kube.timestamps import clock_instant
from tenon.messages.disruption import PassCursor
from tenon.shadow.view import ModelView
from tenon.shadow.waiting_commands import claims_of

PODS_FIRST_SECONDS = 1.0
"""After so many seconds it is checked again whether pods wait for a plan."""


@dataclass(slots=True)
class ShadowPace:
    """When the next pass begins, and where it goes on."""

    due: float = 0.0
    """When it may begin, in seconds since the epoch."""
    cursor: PassCursor | None = None
    _ready_since: float | None = None

    def begins(self, view: ModelView, policies: Mapping[str, PoolPolicy]) -> bool:
        """Return whether a pass for moves begins now. If it does not, `due` says when to ask again.

        Pods come first: their plan changes the cluster in a moment.
        """
        cluster = view.cluster
        if view.now < self.due:
            return False
        if any(pod.live.uid not in cluster.unplaced for pod in cluster.waiting()):
            self.due = view.now + PODS_FIRST_SECONDS
            return False
        commanded = claims_of(cluster.commands)
        nodes = [
            node
            for node in view.managed_nodes(view.versions())
            if node.pool in policies and node.claim not in commanded
        ]
        if not any(node.drifted and not node.leaving for node in nodes):
            # asked again before more nodes are due: a node that drifts does not wait for them
            self.due = view.now + min(PASS_SECONDS, self._settles_in(view, nodes, policies))
        return self.due <= view.now

    def _settles_in(self, view: ModelView, nodes: Sequence[ManagedNode], policies: Mapping[str, PoolPolicy]) -> float:
        """Return for how many seconds no node is due, or more nodes become due."""
        now = view.now
        quiet = {
            name: clock_instant(max(node.quiet, node.ready))
            for name, node in view.cluster.nodes.items()
            if node.stays and now >= node.ready
        }
        instant = clock_instant(now)
        first = moves_from(nodes, policies, quiet)
        if first is None or first > instant:
            self._ready_since = None
            return PASS_SECONDS if first is None else min(PASS_SECONDS, (first - instant).total_seconds())
        if self.cursor is not None and self.cursor.more:
            return 0.0
        if self._ready_since is None:
            self._ready_since = now
        settled = settles_at(nodes, policies, quiet, instant, SETTLE_STEP)
        wait = max(0.0, min((settled - instant).total_seconds(), self._ready_since + MAX_SETTLE - now))
        if not wait:
            self._ready_since = None
        return wait

    def ended(self, now: float, computed: float, cursor: PassCursor | None) -> None:
        """Note that a pass has ended.

        Args:
            now: seconds since the epoch.
            computed: the CPU seconds that it took.
            cursor: where the next one goes on.
        """
        self.due = now + pause_after(computed)
        self.cursor = cursor or self.cursor or PassCursor()
