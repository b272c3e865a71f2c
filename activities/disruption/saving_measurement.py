"""What a disruption command saves at the price of what EC2 launched, compared with what was predicted (WSH-02)."""

from __future__ import annotations

import asyncio

from temporalio.exceptions import ApplicationError

from activities import metrics
from activities.cluster_view.interfaces import ClusterView
from activities.disruption.move_events import MoveEvents
from activities.disruption.supply import SupplyReader
from activities.provisioning.account_commitments import CommitmentStore
from tenon.apis.reasons import snake_case, traits_of
from tenon.disruption.covered_nodes import covered_details
from tenon.disruption.history.savings import measured
from tenon.messages.command_steps import MeasureInput, MeasureResult
from tenon.messages.disruption import DisruptionCommand


class SavingMeasurement:
    """Measures what commands save."""

    def __init__(
        self,
        view: ClusterView,
        supply: SupplyReader,
        events: MoveEvents,
        commitments: CommitmentStore | None = None,
    ) -> None:
        """``commitments``: the Reserved Instances and Savings Plans that cover nodes."""
        self._view = view
        self._supply = supply
        self._events = events
        self._commitments = commitments or CommitmentStore()

    async def measure(self, measure_input: MeasureInput) -> MeasureResult:
        """Return what a command saves, by NodePool; empty if a price is not known. Consolidation says it in an event.

        Raises:
            ApplicationError: the worker has just started and does not know the cluster yet. Temporal retries.
        """
        command = measure_input.command
        if not self._view.synced():
            raise ApplicationError("the cluster cache is not synced yet", type="CacheBehind")
        prices = await self._prices(command) if command.replacements else {}
        savings = measured(command, measure_input.leaving_claims, prices) or {}
        for pool, saving in savings.items():
            metrics.COMMAND_SAVINGS.labels(pool, snake_case(command.reason)).inc(max(0.0, saving.reached))
        if traits_of(command.reason).counts_savings:
            await self._events.measured(command, savings, self._view.node_pools())
            for pool, saving in savings.items():
                metrics.PREDICTED_SAVINGS.labels(pool).inc(max(0.0, saving.predicted))
                metrics.REACHED_SAVINGS.labels(pool).inc(max(0.0, saving.reached))
        return MeasureResult(pools=savings)

    async def _prices(self, command: DisruptionCommand) -> dict[str, float]:
        """The prices of the replacements, in dollars an hour, as far as they are known."""
        overlaid = await self._supply.usual()
        listed = await asyncio.to_thread(self._view.snapshot().node_details, overlaid.types_by_pool())
        coverage = await asyncio.to_thread(self._commitments.coverage, list(self._view.all_claims()))
        details = covered_details(listed, coverage)
        names = [replacement.name for replacement in command.replacements]
        return {name: details[name].price for name in names if name in details}
