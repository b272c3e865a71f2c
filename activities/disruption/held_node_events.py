"""Events on nodes that emptiness or consolidation would consider if nothing held them (DIS-15).

Passes for moves say the same of pods that hold a node with pods, and of nodes that drifted. But they know neither nodes
that an annotation protects nor empty nodes, and a cluster with nothing else has no passes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from activities.disruption.move_events import why_stays
from activities.kubernetes.event_references import node_references
from activities.kubernetes.events import EventPublisher
from tenon.disruption.deciding import why_nodes_stay
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.rules.unhealthy import without_pool
from tenon.disruption.situation import Situation
from tenon.kube.event_reasons import EventReason

REPORT_SECONDS = 30.0
"""Seconds between two reports. Each goes over all nodes, so not every change of the cluster gets one."""
REPEAT_SECONDS = 900.0
"""Seconds after which a node that is still held gets its event again, as the event Unconsolidatable."""
MOST = 20
"""How many nodes a report names. Thousands may have the annotation, and the next reports name the others."""


class HeldNodeEvents:
    """Publishes the events on NodeClaims and Nodes, and remembers when each node got its last one.

    ``node_uid`` returns the UID of a Node by its name, or nothing.
    """

    def __init__(self, recorder: EventPublisher, node_uid: Callable[[str], str]) -> None:
        self._recorder = recorder
        self._node_uid = node_uid
        self._due = 0.0
        self._published_at: dict[tuple[str, str], float] = {}
        """By NodeClaim and message: until when it is not repeated."""
        self._publishing: asyncio.Task[None] | None = None

    def close(self) -> None:
        """Give up the events that are not written yet."""
        if self._publishing is not None:
            self._publishing.cancel()

    def report(self, situation: Situation, stand_alone: Callable[[], Sequence[ManagedNode]] = tuple) -> None:
        """Report which nodes are held if the last report is long ago. Events are written in the background.

        ``stand_alone``: returns the nodes of NodeClaims without a NodePool, which nothing repairs.
        """
        now = asyncio.get_running_loop().time()
        if now < self._due or (self._publishing is not None and not self._publishing.done()):
            return
        self._due = now + REPORT_SECONDS
        alone = stand_alone() if situation.repair is not None else ()
        held_nodes = {**why_nodes_stay(situation), **without_pool(alone, situation)}
        self._published_at = {
            (claim, why): at
            for (claim, why), at in self._published_at.items()
            if held_nodes.get(claim) == why and now < at
        }
        unsaid = [held_node for held_node in sorted(held_nodes.items()) if held_node not in self._published_at][:MOST]
        if unsaid:
            self._published_at |= dict.fromkeys(unsaid, now + REPEAT_SECONDS)
            nodes = {node.claim: node for node in (*situation.nodes, *alone)}
            self._publishing = asyncio.create_task(self._publish(unsaid, nodes))

    async def _publish(self, held_nodes: Sequence[tuple[str, str]], nodes: Mapping[str, ManagedNode]) -> None:
        for claim, why in held_nodes:
            node = nodes[claim]
            for about in node_references(claim, node.uid, node.node, self._node_uid(node.node)):
                await self._recorder.publish(about, EventReason.DISRUPTION_BLOCKED, why_stays(node, why))
