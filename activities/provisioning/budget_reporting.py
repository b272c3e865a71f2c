"""Reports what the budgets of each NodePool allow: in metrics, and in an event where they allow nothing (DIS-55)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence

from activities import metrics
from activities.kubernetes.event_references import pool_reference
from activities.kubernetes.events import EventPublisher
from tenon.apis.nodepool import NodePool
from tenon.disruption.rules.pool_budgets import BudgetState, budget_states, gone_first
from tenon.disruption.situation import Situation
from tenon.kube.event_reasons import EventReason

REPORT_SECONDS = 30.0
"""Seconds between two reports. Each counts all nodes, so not every change of the cluster gets one."""


class BudgetReporter:
    """Sets the gauges, and remembers which series it set: those of a deleted NodePool drop to 0."""

    def __init__(self, recorder: EventPublisher) -> None:
        """``recorder`` limits how often an event is repeated."""
        self._recorder = recorder
        self._due = 0.0
        self._reported: set[tuple[str, str]] = set()
        self._awaiting: set[str] = set()
        """The NodePools with nodes that left before their replacement, at the last report."""
        self._publishing: asyncio.Task[None] | None = None

    def report(self, situation: Situation, pools: Sequence[NodePool]) -> None:
        """Report the budgets if the last report is long ago. Events are written in the background."""
        now = asyncio.get_running_loop().time()
        if now < self._due:
            return
        self._due = now + REPORT_SECONDS
        states = budget_states(situation)
        self._measure(states)
        self._measure_gone(situation)
        blocked = [state for state in states if state.blocks]
        if blocked and (self._publishing is None or self._publishing.done()):
            self._publishing = asyncio.create_task(self._publish(blocked, {pool.metadata.name: pool for pool in pools}))

    def _measure(self, states: Sequence[BudgetState]) -> None:
        reported = {(state.pool, state.reason.snake_case) for state in states}
        for blocked_key in self._reported - reported:
            metrics.POOL_ALLOWED_DISRUPTIONS.labels(*blocked_key).set(0)
            metrics.POOL_NODES_CONSUMING_BUDGETS.labels(*blocked_key).set(0)
        for state in states:
            series = (state.pool, state.reason.snake_case)
            metrics.POOL_ALLOWED_DISRUPTIONS.labels(*series).set(state.allowed)
            metrics.POOL_NODES_CONSUMING_BUDGETS.labels(*series).set(state.consuming)
        self._reported = reported

    def _measure_gone(self, situation: Situation) -> None:
        """Count the nodes that left before their replacement. A NodePool without one drops to 0."""
        counts = Counter(gone_first(situation).values())
        for pool in self._awaiting | counts.keys():
            metrics.NODES_AWAITING_REPLACEMENT.labels(pool).set(counts[pool])
        self._awaiting = set(counts)

    async def _publish(self, blocked: Sequence[BudgetState], pools: Mapping[str, NodePool]) -> None:
        for state in blocked:
            why = f": the NodePool is {state.closed}" if state.closed else " due to blocking budget"
            text = f"No allowed disruptions for disruption reason {state.reason.camel_case}{why}"
            await self._recorder.publish(pool_reference(pools[state.pool]), EventReason.DISRUPTION_BLOCKED, text)
