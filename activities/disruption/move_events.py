"""Events about consolidation: which moves Balanced approved, which are invalid now, and why a node is left as it is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence

from activities.kubernetes.event_references import claim_reference, pool_reference, reference
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.resources import NODES
from tenon.apis.json_object import JsonObject
from tenon.apis.nodepool import NodePool
from tenon.disruption.decision import Decision
from tenon.disruption.methods.balanced import LEAST_SCORE
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.repair.breaker import MAX_UNHEALTHY_PERCENT
from tenon.disruption.rules.repair import stopped_by_breaker
from tenon.disruption.situation import Situation
from tenon.kube.event_reasons import EventReason
from tenon.messages.disruption import DisruptionCommand, MeasuredSaving
from tenon.money import per_hour, price_text

TASK = "move events"
Event = tuple[JsonObject, EventReason, str]
"""What it is about, its reason, its message."""


class MoveEvents:
    """Publishes the events. ``recorder`` limits how often an event is repeated."""

    def __init__(self, recorder: EventPublisher) -> None:
        self._recorder = recorder
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
            await self._recorder.publish(
                claim_reference(candidate.claim, candidate.uid), EventReason.CONSOLIDATION_REJECTED, why
            )

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
            *_stopped_repairs(situation, by_name),
            *_blocked(decision, nodes),
            *_approvals(decision, nodes, by_name),
            *_unconsolidatable(decision, nodes),
        ]
        if events:
            self._publishing = asyncio.create_task(self._publish(events), name=TASK)

    async def _publish(self, events: Sequence[Event]) -> None:
        for about, reason, text in events:
            await self._recorder.publish(about, reason, text)


def _blocked(decision: Decision, nodes: Mapping[str, ManagedNode]) -> Iterator[Event]:
    """Yield why each node cannot leave although it should (DIS-15)."""
    for claim, blocked in decision.blocked.items():
        if claim in nodes:
            text = why_stays(nodes[claim], str(blocked))
            yield claim_reference(claim, nodes[claim].uid), EventReason.DISRUPTION_BLOCKED, text


def _stopped_repairs(situation: Situation, pools: Mapping[str, NodePool]) -> Iterator[Event]:
    """Yield that too many nodes of a NodePool are unhealthy, about it and each node that is not repaired (N15-127)."""
    for node in stopped_by_breaker(situation):
        why = f"More than {MAX_UNHEALTHY_PERCENT}% of the nodes of NodePool {node.pool} are unhealthy"
        references = [claim_reference(node.claim, node.uid), reference(NODES, node.node)]
        if node.pool in pools:
            references.append(pool_reference(pools[node.pool]))
        yield from ((about, EventReason.NODE_REPAIR_BLOCKED, why) for about in references)


def _approvals(decision: Decision, nodes: Mapping[str, ManagedNode], pools: Mapping[str, NodePool]) -> Iterator[Event]:
    """Yield an event about the NodeClaim of a move of one node, and about the NodePool for others, as in Karpenter."""
    for verdict in decision.verdicts:
        if not verdict.approved:
            continue  # there are too many refusals
        text = f"score {verdict.score:.2f} >= threshold {LEAST_SCORE:.2f}"
        node = nodes.get(verdict.claims[0]) if len(verdict.claims) == 1 else None
        if node is not None:
            yield claim_reference(node.claim, node.uid), EventReason.CONSOLIDATION_APPROVED, text
        elif verdict.pool in pools:
            yield pool_reference(pools[verdict.pool]), EventReason.CONSOLIDATION_APPROVED, text


def _unconsolidatable(decision: Decision, nodes: Mapping[str, ManagedNode]) -> Iterator[Event]:
    for claim, why in decision.unconsolidatable.items():
        if claim in nodes:
            yield claim_reference(claim, nodes[claim].uid), EventReason.UNCONSOLIDATABLE, why_stays(nodes[claim], why)


def why_stays(node: ManagedNode, why: str) -> str:
    """Return the reason as a sentence. A node that was bought in a capacity shortage costs far more while it stays."""
    if node.bought_in_shortage:
        return f"It was bought in a capacity shortage, and Tenon cannot replace it: {why}"
    return why[:1].upper() + why[1:]
