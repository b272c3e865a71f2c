"""Checks a command that moves pods once more before it is carried out, because the cluster changes (DIS-46)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial

from temporalio.exceptions import ApplicationError

from activities import loggers, metrics
from activities.clock import utc_now
from activities.cluster_view.interfaces import ClusterView
from activities.disruption.move_events import MoveEvents
from activities.disruption.move_messages import MoveMessages
from activities.disruption.situation_source import SituationSource
from activities.provisioning.launch_refusals import LaunchRefusals
from activities.provisioning.solving import Limit
from tenon.apis.nodepool import NodePool
from tenon.apis.reasons import Reason
from tenon.disruption.validation import Validation, changed_pool, validated
from tenon.evolve import evolve
from tenon.messages.disruption import DisruptionCommand, OpenCommand, StepResult

log = loggers.DISRUPTION

MAX_SECONDS = 30.0
"""Seconds after which a validation stops looking for other replacements."""


class MoveValidator:
    """Validates commands that move pods."""

    def __init__(
        self,
        view: ClusterView,
        situations: SituationSource,
        events: MoveEvents,
        refusals: LaunchRefusals,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """``refusals``: what EC2 refuses, which no replacement is made of."""
        self._view = view
        self._situations = situations
        self._events = events
        self._refusals = refusals
        self._now = now

    async def validate(
        self,
        command: DisruptionCommand,
        open_commands: Mapping[str, OpenCommand],
        last_check: Callable[[], Validation] = Validation,
    ) -> StepResult:
        """Return why the command must not be carried out any more, or what is carried out in its place (DIS-46).

        Args:
            command: the command.
            open_commands: the open and the failed commands, by NodeClaim.
            last_check: returns whether the cluster still allows it once all else is known. If it does, nothing is
                awaited from then on.

        Raises:
            ApplicationError: the worker has just started and does not know the cluster yet. Temporal retries.
        """
        if not self._situations.is_ready():
            raise ApplicationError("the cluster cache is not synced yet", type="CacheBehind")
        if command.replacements:
            await self._refusals.refresh()  # a launch that succeeded may have been refused cheaper types
        limit = Limit(MAX_SECONDS)
        others = {claim: entry for claim, entry in open_commands.items() if entry.command != command.id}
        situation, supply = await self._situations.with_model(self._view.managed_nodes(), others, asyncio.to_thread)
        outdated = changed_pool(command, self._launching_pools(command))
        validation = await asyncio.to_thread(validated, command, situation, limit, outdated)
        if validation.is_full and command.approval is not None:
            return StepResult(waits=validation.why)
        valid = command
        if validation.instead is not None:
            messages = MoveMessages(situation, supply, self._now())
            valid = await asyncio.to_thread(partial(messages.of, validation.instead, ident=command.id))
        elif validation.why:
            return await self._rejected(command, validation.why)
        if changed := changed_pool(valid, self._launching_pools(command)):  # while it was validated
            return await self._rejected(command, changed)
        last = last_check()
        if last.is_full and command.approval is not None:
            return StepResult(waits=last.why)
        if last.why:
            return await self._rejected(command, last.why)
        if validation.instead is None:
            return StepResult()
        log.info(
            "A disruption command takes other replacements than it was decided with",
            extra={
                "command": command.id,
                "nodeclaims": [candidate.claim for candidate in command.candidates],
                "replacements": len(valid.replacements),
            },
        )
        self._situations.has_other_replacements(valid)
        instead = evolve(valid, leaves_from=command.leaves_from, approval=command.approval)
        return StepResult(instead=instead, why_instead=validation.why)

    async def _rejected(self, command: DisruptionCommand, why: str) -> StepResult:
        metrics.FAILED_VALIDATIONS.labels(command.consolidation_type).inc()
        await self._events.rejected(command, why)
        return StepResult(failure=why)

    def _launching_pools(self, command: DisruptionCommand) -> Sequence[NodePool]:
        """The NodePools, each in the version that the command's replacements get, as `Supply.of` chooses it."""
        pools = self._view.node_pools()
        if command.reason != Reason.DRIFTED:
            return pools
        own_pool = command.candidates[0].pool
        return [*pools, *(pool for pool in self._view.wave_pools() if pool.metadata.name == own_pool)]
