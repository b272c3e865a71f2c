"""Events about consolidation: which moves Balanced approved, which are invalid now, and why a node is left as it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from activities.kubernetes.event_references import node_references, pool_reference
from activities.kubernetes.events import EventPublisher
from tenon.apis.json_object import JsonObject
from tenon.apis.nodepool import NodePool
from tenon.disruption.decision import Decision
from tenon.disruption.methods.balanced import LEAST_SCORE
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.repair.breaker import MAX_UNHEALTHY_PERCENT
from tenon.disruption.rules.unhealthy import stopped_by_breaker
from tenon.disruption.situation import Situation
from tenon.kube.event_reasons import EventReason
from tenon.messages.disruption import DisruptionCommand, MeasuredSaving
from tenon.money import per_hour, price_text

TASK = "move events"
Event = tuple[JsonObject, EventReason, str]
"""What it is about, its reason, its message."""
References = Callable[[ManagedNode], Sequence[JsonObject]]
"""Returns what an event about a node is published on: its NodeClaim, and its Node if it has one."""


class MoveEvents:
    """Publishes the events, on NodeClaims and their Nodes, because people look at either.

    ``recorder`` limits how often an event is repeated. ``node_uid`` returns the UID of a Node by its name, or nothing.
    """

    def __init__(self, recorder: EventPublisher, node_uid: Callable[[str], str]) -> None:
        self._recorder = recorder
        self._node_uid = node_uid
        self._publishing: asyncio.Task[None] | None = None

    def close(self) -> None:
        """Give up the events that are not written yet."""
        if self._publishing is not None:
            self._publishing.cancel()

    async def rejected(self, command: DisruptionCommand, why: str) -> None:
        """Say why a consolidation is not carried out (DIS-46). Drift is no consolidation."""
        if not command.consolidation_type:
            return
        for candidate in command.candidates:
            node_uid = self._node_uid(candidate.node)
            for about in node_references(candidate.claim, candidate.uid, candidate.node, node_uid):
                await self._recorder.publish(about, EventReason.CONSOLIDATION_REJECTED, why)

    async def measured(
        self, command: DisruptionCommand, savings: Mapping[str, MeasuredSaving], pools: Sequence[NodePool]
    ) -> None:
        """Say on each NodePool what a consolidation saves, and what was predicted."""
        by_name = {pool.metadata.name: pool for pool in pools}
        for pool, saving in savings.items():
            if pool in by_name:
                predicted = price_text(saving.predicted)
                text = f"Command {command.id} saves {per_hour(saving.reached)}; {predicted} was predicted"
                await self._recorder.publish(pool_reference(by_name[pool]), EventReason.CONSOLIDATION_MEASURED, text)

    def decided(self, decision: Decision, situation: Situation, pools: Sequence[NodePool]) -> None:
        """Publish what a pass says about nodes, in the background, so that its commands need not wait for the events.

        If the events of the pass before are not written yet, it publishes nothing: most of them are the same.
        """
        if self._publishing is not None and not self._publishing.done():
            return
        by_name = {pool.metadata.name: pool for pool in pools}
        nodes = {node.claim: node for node in situation.nodes}
        events = [
            *_stopped_repairs(situation, by_name, self.about),
            *_blocked(decision, nodes, self.about),
            *_approvals(decision, nodes, by_name, self.about),
            *_unconsolidatable(decision, nodes, self.about),
        ]
        if events:
            self._publishing = asyncio.create_task(self._publish(events), name=TASK)

    def about(self, node: ManagedNode) -> Sequence[JsonObject]:
        """Return what an event about the node is published on."""
        return node_references(node.claim, node.uid, node.node, self._node_uid(node.node))

    async def _publish(self, events: Sequence[Event]) -> None:
        for about, reason, text in events:
            await self._recorder.publish(about, reason, text)


def _events(references: Iterable[JsonObject], reason: EventReason, text: str) -> Iterator[Event]:
    return ((about, reason, text) for about in references)


def _blocked(decision: Decision, nodes: Mapping[str, ManagedNode], about: References) -> Iterator[Event]:
    """Yield why each node cannot leave although it should (DIS-15)."""
    for claim, blocked in decision.blocked.items():
        if claim in nodes:
            text = why_stays(nodes[claim], str(blocked))
            yield from _events(about(nodes[claim]), EventReason.DISRUPTION_BLOCKED, text)


def _stopped_repairs(situation: Situation, pools: Mapping[str, NodePool], about: References) -> Iterator[Event]:
    """Yield that too many nodes of a NodePool are unhealthy, about it and each node that is not repaired (N15-127)."""
    for node in stopped_by_breaker(situation):
        why = f"More than {MAX_UNHEALTHY_PERCENT}% of the nodes of NodePool {node.pool} are unhealthy"
        of_pool = [pool_reference(pools[node.pool])] if node.pool in pools else []
        yield from _events([*about(node), *of_pool], EventReason.NODE_REPAIR_BLOCKED, why)


def _approvals(
    decision: Decision, nodes: Mapping[str, ManagedNode], pools: Mapping[str, NodePool], about: References
) -> Iterator[Event]:
    """Yield events about the node of a move of one node, and about the NodePool for others, as in Karpenter."""
    for verdict in decision.verdicts:
        if not verdict.approved:
            continue  # there are too many refusals
        shares = f"savings {verdict.savings:.1%}, disruption {verdict.disruption:.1%}"
        text = f"score {verdict.score:.2f} >= threshold {LEAST_SCORE:.2f} (k: {1 / LEAST_SCORE:.0f}, {shares})"
        node = nodes.get(verdict.claims[0]) if len(verdict.claims) == 1 else None
        if node is not None:
            yield from _events(about(node), EventReason.CONSOLIDATION_APPROVED, text)
        elif verdict.pool in pools:
            yield pool_reference(pools[verdict.pool]), EventReason.CONSOLIDATION_APPROVED, text


def _unconsolidatable(decision: Decision, nodes: Mapping[str, ManagedNode], about: References) -> Iterator[Event]:
    for claim, why in decision.unconsolidatable.items():
        if claim in nodes:
            yield from _events(about(nodes[claim]), EventReason.UNCONSOLIDATABLE, why_stays(nodes[claim], why))


def why_stays(node: ManagedNode, why: str) -> str:
    """Return the reason as a sentence. A node that was bought in a capacity shortage costs far more while it stays."""
    if node.bought_in_shortage:
        return f"It was bought in a capacity shortage, and Tenon cannot replace it: {why}"
    return why[:1].upper() + why[1:]
