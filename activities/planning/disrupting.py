"""Which nodes leave: waits on the cluster cache for empty nodes that their budgets let go."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from activities import metrics
from activities.planning.buffers import BufferRoom
from activities.planning.interfaces import ClusterView
from activities.planning.pacing import Pace
from tenon.apis.nodepool import NodePool
from tenon.disruption.budgets import Budget
from tenon.disruption.emptiness import REASON, EmptyNode, ManagedNode, PoolPolicy, empty_nodes
from tenon.lifecycle.messages import (
    AwaitDisruptionInput,
    Candidate,
    DisruptionCommand,
    DisruptionDecision,
    LedgerEntry,
)

log = logging.getLogger("controller.disruption")

SETTLES_AFTER = timedelta(seconds=30)
"""How long after its due time a node that takes its command has begun to leave."""
LOOK_EVERY = 1.0
"""Seconds between two looks at a cluster that changes all the time."""
LOOK_AGAIN = 30.0
"""Seconds after which budgets and schedules are looked at even if nothing changed on the cluster."""


class Disruptor:
    """Finds candidates."""

    def __init__(
        self,
        view: ClusterView,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        promised: Callable[[], Collection[str]] = frozenset,
        buffers: BufferRoom | None = None,
    ) -> None:
        """``promised``: the names of Nodes and NodeClaims that pods are on their way to. ``buffers``: where
        CapacityBuffers keep room.
        """
        self._view = view
        self._promised = promised
        self._buffers = buffers or BufferRoom()
        self._now = now
        self._turn = 0
        self._pace = Pace(LOOK_EVERY)

    async def await_candidates(self, given: AwaitDisruptionInput) -> DisruptionDecision:
        """Wait until some node may be disrupted within its budgets; nothing when the wait ended quietly."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + given.wait_seconds
        self._turn += 1
        turn = self._turn
        while (left := give_up - loop.time()) > 0 and turn == self._turn:  # a newer question ends an older one
            if not (self._view.synced() and self._buffers.known):
                await self._view.nodes_changed(min(left, 1.0))
                continue
            with self._pace.look():
                found, gone, again = self._look(given)
            if found:
                return DisruptionDecision(commands=[_command(found)], gone=gone)
            pause = min(left, LOOK_AGAIN)
            if again is not None:
                pause = min(pause, max(0.05, (again - self._now()).total_seconds()))
            await self._view.nodes_changed(pause)
            await self._pace.wait(give_up - loop.time())
        return DisruptionDecision()

    def _look(self, given: AwaitDisruptionInput) -> tuple[list[EmptyNode], list[str], datetime | None]:
        """The nodes that may go now, the claims whose command is over, and when to look again."""
        policies = {pool.metadata.name: policy(pool) for pool in self._view.node_pools()}
        nodes = self._nodes()
        gone = settled(given.ledger, nodes, self._now())
        found, again = empty_nodes(
            nodes, policies, under_command=frozenset(given.ledger) - frozenset(gone), now=self._now()
        )
        metrics.ELIGIBLE_NODES.labels(REASON).set(len(found))
        return found, gone, again

    def _nodes(self) -> list[ManagedNode]:
        """The nodes, of which none counts as empty that pods were promised to a moment ago, or that a buffer uses."""
        promised = {*self._promised(), *self._buffers.hosts()}
        return [
            replace(node, empty=False) if node.claim in promised or node.node in promised else node
            for node in self._view.managed_nodes()
        ]


def settled(ledger: Mapping[str, LedgerEntry], nodes: Sequence[ManagedNode], now: datetime) -> list[str]:
    """Claims whose command is over: they are gone, or did not leave although their time has come."""
    present = {node.claim: node for node in nodes}
    return sorted(
        claim
        for claim, entry in ledger.items()
        if claim not in present
        or (entry.due is not None and now > entry.due + SETTLES_AFTER and not present[claim].leaving)
    )


def policy(pool: NodePool) -> PoolPolicy:
    """What a NodePool says of emptiness; nodes of a static one are wanted whether or not they are empty."""
    disruption = pool.spec.disruption
    seconds = None if pool.spec.replicas is not None else disruption.consolidate_after.seconds
    return PoolPolicy(
        name=pool.metadata.name,
        consolidate_after=None if seconds is None else timedelta(seconds=seconds),
        budgets=tuple(
            Budget(
                nodes=budget.nodes,
                reasons=budget.reasons,
                schedule=budget.schedule,
                duration=None if budget.duration is None else timedelta(seconds=budget.duration.seconds or 0),
            )
            for budget in disruption.budgets
        ),
    )


def _command(found: list[EmptyNode]) -> DisruptionCommand:
    candidates = [
        Candidate(claim=e.node.claim, uid=e.node.uid, pool=e.node.pool, since=e.since, due=e.due) for e in found
    ]
    text = "/".join(f"{c.uid}@{c.since.isoformat()}" for c in candidates)
    identity = f"empty-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    metrics.DECISIONS.labels("delete", "empty", "empty").inc()
    for candidate in candidates:
        log.info(
            "found empty node",
            extra={
                "nodeclaim": candidate.claim,
                "nodepool": candidate.pool,
                "empty-since": candidate.since.isoformat(),
                "ttl-ends": candidate.due.isoformat(),
            },
        )
    return DisruptionCommand(id=identity, reason=REASON, candidates=candidates)
