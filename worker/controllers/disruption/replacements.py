"""Tells the workflow of a disruption command when one of its replacements is initialized, leaves or is gone.

It also says when a node is gone that a command removed: the command of a node that left first then looks for the
replacement.

The workflow waits for that without an activity: one that waits would hold a worker slot that launching the replacements
needs. A signal is only a hint. The workflow looks at the NodeClaims itself, and also looks without a signal once a
minute, so nothing is lost if the leader changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from worker.cache.changes import Change, Topic
from worker.cache.cluster import ClusterCache
from worker.controllers.base import ObjectController
from worker.controllers.workflow_start import ANSWER_WITHIN
from workflows import names
from workflows.disruption_command import DisruptionCommandWorkflow


class ReplacementController(ObjectController):
    """Sends a signal for each replacement that becomes initialized, leaves or is gone, and for each candidate that is
    gone."""

    name = "disruption.replacements"
    object_field = "nodeclaim"
    topics = (Topic.CLAIM,)
    settle = 0.1
    at_once = 20

    def __init__(self, client: Client, cache: ClusterCache, cluster: str) -> None:
        super().__init__(cache)
        self._client = client
        self._cluster = cluster
        self._signaled_levels: dict[str, tuple[str, bool, bool]] = {}
        """By NodeClaim: its command and, of a replacement, whether it is initialized and leaves; as last signaled."""

    def initial(self) -> Sequence[Change]:
        """All NodeClaims: they may have changed while no replica led."""
        return [(Topic.CLAIM, claim.name) for claim in self._cache.claims]

    def needs_reconcile(self, name: str) -> bool:
        """Whether the NodeClaim is a replacement or a leaving candidate that has changed, or was one."""
        return self._level(name) != self._signaled_levels.get(name)

    async def reconcile_object(self, name: str) -> float | None:
        """Signal the command of a NodeClaim if there is anything that may end its wait."""
        level, last_level = self._level(name), self._signaled_levels.get(name)
        if level is not None:
            command, initialized, leaves = level
            if initialized or leaves:
                await self._signal(command, name)
            self._signaled_levels[name] = level
            return None
        if last_level is not None:
            if self._cache.claims.get(name) is None:  # otherwise its command has ended and released it
                await self._signal(last_level[0], name)
            self._signaled_levels.pop(name)
        return None

    def _level(self, name: str) -> tuple[str, bool, bool] | None:
        claim = self._cache.claims.get(name)
        if claim is None:
            return None
        if claim.replacement_for:
            return claim.replacement_for, claim.initialized, claim.deleting
        return (claim.disrupted_by, False, False) if claim.disrupted_by and claim.deleting else None

    async def _signal(self, command: str, claim: str) -> None:
        handle = self._client.get_workflow_handle(names.command_id(self._cluster, command))
        try:
            await handle.signal(DisruptionCommandWorkflow.replacement_changed, claim, rpc_timeout=ANSWER_WITHIN)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:  # the command has ended
                raise
