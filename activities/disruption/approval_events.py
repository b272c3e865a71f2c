"""Events on NodeClaims and their NodePool when a disruption command begins to wait until a person approves it.

The next passes leave these nodes alone, so nothing else in Kubernetes says that somebody is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from activities.kubernetes.event_references import claim_reference, pool_reference
from activities.kubernetes.events import EventPublisher
from tenon.apis.nodepool import NodePool
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.rules.approvals import why_asked
from tenon.disruption.situation import Situation
from tenon.kube.event_reasons import EventReason
from tenon.sentences import counted

MOST = 20
"""How many NodeClaims of a command get the event."""


class ApprovalEvents:
    """Publishes the events once for each command."""

    def __init__(self, recorder: EventPublisher) -> None:
        self._recorder = recorder
        self._announced: frozenset[str] = frozenset()
        """The commands that waited at the last report."""
        self._publishing: asyncio.Task[None] | None = None

    def close(self) -> None:
        """Give up the events that are not written yet."""
        if self._publishing is not None:
            self._publishing.cancel()

    def report(self, situation: Situation, pools: Callable[[], Sequence[NodePool]]) -> None:
        """Report the commands that wait and did not at the last report. Events are written in the background."""
        if self._publishing is not None and not self._publishing.done():
            return
        nodes: dict[str, list[ManagedNode]] = {}
        for node in situation.nodes if situation.approvals else ():
            asked_approval = situation.approvals.get(node.claim)
            if asked_approval is not None and asked_approval.command and not asked_approval.refused:
                nodes.setdefault(asked_approval.command, []).append(node)
        unsaid = nodes.keys() - self._announced
        self._announced = frozenset(nodes)
        if unsaid:
            new_nodes = {command: nodes[command] for command in sorted(unsaid)}
            self._publishing = asyncio.create_task(self._publish(new_nodes, situation, pools()))

    async def _publish(
        self, nodes: dict[str, list[ManagedNode]], situation: Situation, pools: Sequence[NodePool]
    ) -> None:
        by_name = {pool.metadata.name: pool for pool in pools}
        for command, own in nodes.items():
            for node in own[:MOST]:
                why = why_asked(node, situation)
                about = claim_reference(node.claim, node.uid)
                await self._recorder.publish(about, EventReason.DISRUPTION_AWAITS_APPROVAL, why[:1].upper() + why[1:])
            reason = situation.approvals[own[0].claim].reason.snake_case
            text = (
                f"The removal of {counted(len(own), 'node')} as {reason} waits for approval: `tenon approve {command}`"
            )
            for pool in sorted({node.pool for node in own} & by_name.keys()):
                await self._recorder.publish(
                    pool_reference(by_name[pool]), EventReason.DISRUPTION_AWAITS_APPROVAL, text
                )
