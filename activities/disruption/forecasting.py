"""Says what consolidation would do next, for operators who ask the disruption workflow.

It decides as a pass for moves does, at the times at which waits end. Nothing comes of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TypeVar

from temporalio.exceptions import ApplicationError

from activities.clock import utc_now
from activities.cluster_view.interfaces import ClusterView
from activities.disruption.moves import MethodsFor
from activities.disruption.situation_source import SituationSource
from activities.provisioning.solving import Limit
from tenon.disruption.commands.open_commands import claims_of_finished_commands, commands_without
from tenon.disruption.decision import Command
from tenon.disruption.forecast import Forecast, forecast, is_consolidation
from tenon.disruption.freezes.freeze import frozen_now
from tenon.disruption.nodes import NodeDetail
from tenon.disruption.situation import Situation
from tenon.messages.forecast import ConsolidationForecast, ForecastCommand, ForecastInput, ForecastNode, LeavingNode

MAX_SECONDS = 30.0
"""Seconds after which the search gives what it has found."""
LISTED_COMMANDS = 10
"""How many commands an answer has."""
LISTED_NODES = 5
"""How many nodes and replacements a command of an answer has."""
LISTED_POOLS = 20
"""How many frozen NodePools an answer names."""

Result = TypeVar("Result")


class Forecaster:
    """Answers one operator after the other, because each model of the cluster is large."""

    def __init__(
        self,
        view: ClusterView,
        situations: SituationSource,
        methods: MethodsFor,
        *,
        free_memory: Callable[[], None] = lambda: None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """``situations``, ``methods`` and ``free_memory`` are those of passes."""
        self._view = view
        self._situations = situations
        self._methods = methods
        self._free_memory = free_memory
        self._now = now
        self._one_at_a_time = asyncio.Lock()

    async def forecast(self, forecast_input: ForecastInput) -> ConsolidationForecast:
        """Return what consolidation would do next.

        Raises:
            ApplicationError: the cache is not synced yet.
        """
        async with self._one_at_a_time:
            if not self._situations.is_ready():
                raise ApplicationError("the cluster cache is not synced yet", type="CacheBehind")
            limit, nodes = Limit(MAX_SECONDS), self._view.managed_nodes()
            ledger = forecast_input.ledger
            rest = commands_without(ledger, claims_of_finished_commands(ledger, nodes, self._now()))
            try:
                situation, _ = await self._situations.with_model(nodes, rest, _in_thread)
                foreseen = await asyncio.to_thread(forecast, situation, self._methods(limit))
                is_cut = limit()
            finally:
                limit.end()
                await asyncio.to_thread(self._free_memory)
            return _message(foreseen, situation, is_cut=is_cut)


async def _in_thread(function: Callable[..., Result], /, *arguments: object) -> Result:
    return await asyncio.to_thread(function, *arguments)


def _message(foreseen: Forecast, situation: Situation, *, is_cut: bool) -> ConsolidationForecast:
    if foreseen.acts_now:
        at: datetime | None = situation.now
        commands = tuple(filter(is_consolidation, foreseen.decision.commands))
        at_the_latest = False
    elif foreseen.forecast_times:
        last = foreseen.forecast_times[-1]
        at, commands, at_the_latest = last.at, last.commands, last.is_latest
    else:
        at, commands, at_the_latest = None, (), False
    frozen = _frozen(situation)
    return ConsolidationForecast(
        asked_at=situation.now,
        at=at,
        commands=[_command(command, situation) for command in commands[:LISTED_COMMANDS]],
        more_commands=max(0, len(commands) - LISTED_COMMANDS),
        at_the_latest=at_the_latest,
        is_cut=is_cut,
        frozen=dict(list(frozen.items())[:LISTED_POOLS]),
        more_frozen=max(0, len(frozen) - LISTED_POOLS),
    )


def _frozen(situation: Situation) -> Mapping[str, str]:
    """Return each NodePool that a DisruptionFreeze stops, with its clause."""
    frozen = {pool: frozen_now(policy.freezes, situation.now) for pool, policy in sorted(situation.policies.items())}
    return {pool: freeze.clause for pool, freeze in frozen.items() if freeze is not None}


def _command(command: Command, situation: Situation) -> ForecastCommand:
    assert situation.model is not None
    nodes = [candidate.node for candidate in command.candidates]
    details = situation.model.details
    prices = [details[node.claim].price if node.claim in details else 0.0 for node in nodes]
    price = sum(prices) if all(prices) else None
    return ForecastCommand(
        reason=command.reason.value,
        nodes=[node.node or node.claim for node in nodes[:LISTED_NODES]],
        leaving={
            node.node or node.claim: _leaving(details[node.claim])
            for node in nodes[:LISTED_NODES]
            if node.claim in details
        },
        more_nodes=max(0, len(nodes) - LISTED_NODES),
        pools=sorted({node.pool for node in nodes}),
        replacements=[
            ForecastNode(
                pool=claim.pool,
                instance_type=claim.offering.instance_type,
                zone=claim.offering.zone,
                capacity_type=claim.offering.capacity_type,
                price=claim.price,
            )
            for claim in command.new_claims[:LISTED_NODES]
        ],
        saving=command.expected if command.moves_pods else price,
        awaits_approval=command.approve_within is not None,
    )


def _leaving(detail: NodeDetail) -> LeavingNode:
    return LeavingNode(
        instance_type=detail.instance_type,
        zone=detail.zone,
        capacity_type=detail.capacity_type,
        price=detail.price,
        pods=len(detail.pods),
    )
