"""Reports what the budgets of each NodePool allow: in metrics, and in an event where they allow nothing (DIS-55)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence

from activities import metrics
from activities.kubernetes.event_references import pool_reference
from activities.kubernetes.events import EventPublisher
from activities.reported_gauges import report
from tenon.apis.nodepool import NodePool
from tenon.disruption.rules.pool_budgets import BudgetState, budget_states, gone_first
from tenon.disruption.situation import Situation
from tenon.kube.event_reasons import EventReason

REPORT_SECONDS = 30.0
"""Seconds between two reports. Each counts all nodes, so not every change of the cluster gets one."""


class BudgetReporter:
    """Sets the gauges and publishes the events."""

    def __init__(self, recorder: EventPublisher) -> None:
        """``recorder`` limits how often an event is repeated."""
        self._recorder = recorder
        self._due = 0.0
        self._publishing: asyncio.Task[None] | None = None

    def close(self) -> None:
        """Give up the events that are not written yet."""
        if self._publishing is not None:
            self._publishing.cancel()

    def report(self, situation: Situation, pools: Sequence[NodePool]) -> None:
        """Report the budgets if the last report is long ago. Events are written in the background."""
        now = asyncio.get_running_loop().time()
        if now < self._due:
            return
        self._due = now + REPORT_SECONDS
        states = budget_states(situation)
        _measure(states)
        counts = Counter(gone_first(situation).values())
        report(metrics.NODES_AWAITING_REPLACEMENT, {(pool,): count for pool, count in counts.items()})
        blocked = [state for state in states if state.blocks]
        if blocked and (self._publishing is None or self._publishing.done()):
            self._publishing = asyncio.create_task(self._publish(blocked, {pool.metadata.name: pool for pool in pools}))

    async def _publish(self, blocked: Sequence[BudgetState], pools: Mapping[str, NodePool]) -> None:
        for state in blocked:
            why = f": the NodePool is {state.closed}" if state.closed else " due to blocking budget"
            text = f"No allowed disruptions for disruption reason {state.reason.camel_case}{why}"
            await self._recorder.publish(pool_reference(pools[state.pool]), EventReason.DISRUPTION_BLOCKED, text)


def _measure(states: Sequence[BudgetState]) -> None:
    series = {(state.pool, state.reason.snake_case): state for state in states}
    report(metrics.POOL_ALLOWED_DISRUPTIONS, {labels: state.allowed for labels, state in series.items()})
    report(metrics.POOL_NODES_CONSUMING_BUDGETS, {labels: state.consuming for labels, state in series.items()})
