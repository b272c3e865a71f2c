"""Frees the NodeClaims of disruption commands that ended without finishing, because an operator terminated them.

A command marks its candidates and replacements with annotations, which keep everything else away from them. The
workflow of a node removes the taint of a candidate that no longer has the annotation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS
from tenon.apis import labels
from tenon.kube import object_json
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.structs import Object
from worker.cache.changes import Change, Topic
from worker.cache.cluster import ClusterCache
from worker.controllers.base import Controller
from worker.controllers.workflow_start import ANSWER_WITHIN
from workflows import names

MARKS = (labels.DISRUPTED_BY, labels.REPLACEMENT_FOR)


class DisruptionCommandController(Controller):
    """Compares the annotations with the open workflows after changes of NodeClaims, and every 30 s."""

    name = "disruption.commands"
    object_field = "nodeclaim"
    topics = (Topic.CLAIM,)
    interval = 10.0
    resync = 30.0

    def __init__(self, client: Client, kube: Kube, cache: ClusterCache, cluster: str) -> None:
        super().__init__(cache)
        self._client = client
        self._kube = kube
        self._cluster = cluster
        self._closed: set[str] = set()
        """Commands that were closed at the last pass. Only at the second pass are their annotations stale for sure: the
        cache may not have seen the last writes of a command that just ended.
        """

    async def reconcile(self, changes: Sequence[Change]) -> float | None:  # noqa: ARG002 - looks at all marked claims
        """Remove the annotations of commands whose workflow is closed."""
        marked: dict[str, list[ClaimRecord]] = {}
        for claim in self._cache.claims:
            for command in {claim.disrupted_by, claim.replacement_for} - {""}:
                marked.setdefault(command, []).append(claim)
        closed = {command for command in marked if not await self._is_open(command)}
        for command in sorted(closed & self._closed):
            for claim in marked[command]:
                if not claim.deleting:
                    await self.isolate(claim.name, self._free(claim, command))
        self._closed = closed
        return self.interval if closed else None

    async def _is_open(self, command: str) -> bool:
        handle = self._client.get_workflow_handle(names.command_id(self._cluster, command))
        try:
            description = await handle.describe(rpc_timeout=ANSWER_WITHIN)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise
        return description.status is WorkflowExecutionStatus.RUNNING

    async def _free(self, claim: ClaimRecord, command: str) -> None:
        def compute(body: Object) -> dict[str, Any]:
            present = object_json.annotations(body)
            stale = {mark: None for mark in MARKS if present.get(mark) == command}
            return {"metadata": {"annotations": stale}} if stale else {}

        await change(self._kube, NODECLAIMS, claim.name, compute, uid=claim.uid)
        self._log.warning(
            "The worker freed a node of a disruption command that ended without finishing",
            extra={"nodeclaim": claim.name, "command": command},
        )
