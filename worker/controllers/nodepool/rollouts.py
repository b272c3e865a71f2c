"""Starts a workflow for each NodeRollout, pokes it when something that it follows changes, and validates its object."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from activities.clock import utc_now
from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODEROLLOUTS
from activities.rollout import rollout_metrics
from tenon.apis import labels
from tenon.apis.conditions import with_validation
from tenon.apis.noderollout import NodeRolloutStatus
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.records import ObjectRecord
from tenon.rollout import page
from tenon.rollout.versions import PoolPhase, PoolRollout
from worker.cache.changes import Change, Topic
from worker.cache.cluster import ClusterCache
from worker.cache.planning_view import PlanningView
from worker.cache.rollout_view import RolloutView
from worker.controllers.base import Controller
from worker.controllers.workflow_start import ANSWER_WITHIN, start
from workflows import names
from workflows.rollout import RolloutWorkflow

RESTART_SECONDS = 60.0
"""Seconds until a workflow is started again, because an operator may have ended it."""
RETRY = 5.0
INVALID = "NodeRolloutInvalid"


class NodeRolloutController(Controller):
    """Ensures that each NodeRollout has a workflow that calls this leader and knows of the last change."""

    name = "noderollout"
    object_field = "noderollout"
    topics = (Topic.ROLLOUT, Topic.POOL, Topic.NODECLASS, Topic.CLAIM)
    interval = 1.0

    def __init__(
        self, client: Client, kube: Kube, cache: ClusterCache, view: PlanningView, cluster: str, queue: str
    ) -> None:
        """``queue`` is the task queue of this leader."""
        super().__init__(cache)
        self._client = client
        self._kube = kube
        self._view = view
        self._rollout_view = RolloutView(cache, view)
        self._cluster = cluster
        self._queue = queue
        self._poked: dict[str, object] = {}
        """By name, what the workflow of a NodeRollout was poked for last. Empty at the start of each leadership."""
        self._restart_at: dict[str, float] = {}

    async def reconcile(self, changes: Sequence[Change]) -> float | None:  # noqa: ARG002 - few NodeRollouts
        """Look at all NodeRollouts."""
        rollout_metrics.measure_only({record.name for record in self._cache.versions.rollouts})
        present = {record.name: record for record in self._cache.versions.rollouts if not record.deleting}
        if not present and not self._poked:
            return None
        by_pool = self._view.rollouts() if present else {}
        succeeded = [await self.isolate(name, self._end(name)) for name in set(self._poked) - set(present)]
        succeeded += [
            await self.isolate(name, self._follow(record, by_pool)) for name, record in sorted(present.items())
        ]
        if not all(succeeded):
            return RETRY
        return RESTART_SECONDS if present else None

    async def _follow(self, record: ObjectRecord, by_pool: dict[str, PoolRollout]) -> None:
        await self._validate(record)
        name, now = record.name, asyncio.get_running_loop().time()
        level = self._level(record, by_pool)
        changed = self._poked.get(name) != level
        if not changed and now < self._restart_at.get(name, now):
            return
        workflow_id = names.rollout_id(self._cluster, name)
        await start(
            self._client,
            self._cluster,
            RolloutWorkflow.run,
            page.first_input(self._cluster, name, self._queue),
            workflow_id,
            summary=f"NodeRollout {name}",
            details=page.ABOUT,
        )
        if changed:
            handle = self._client.get_workflow_handle(workflow_id)
            if name not in self._poked:  # another replica may have led before
                await handle.signal(RolloutWorkflow.planner_started, self._queue, rpc_timeout=ANSWER_WITHIN)
            await handle.signal(RolloutWorkflow.poke, rpc_timeout=ANSWER_WITHIN)
            self._poked[name] = level
        self._restart_at[name] = now + RESTART_SECONDS

    def _level(self, record: ObjectRecord, by_pool: dict[str, PoolRollout]) -> object:
        """What moves a rollout before its next look: its spec, a new version, and a node of a wave that is gone."""
        specs = {pool.metadata.name: pool for pool in self._view.specs()}
        claims = defaultdict[str, list[ClaimRecord]](list)
        for claim in self._cache.claims:
            claims[claim.pool].append(claim)
        pools = []
        for name, rollout in sorted(by_pool.items()):
            if rollout.rollout != record.name or name not in specs:
                continue
            staying = sorted(claim for claim in rollout.wave_claims if self._cache.claims.get(claim) is not None)
            has_target = any(claim.annotations.get(labels.REVISION) == rollout.target for claim in claims[name])
            drifted = sum(claim.is_true("Drifted") for claim in claims[name])
            pools.append(
                (
                    name,
                    bool(rollout.current),  # not if somebody wiped the status
                    rollout.phase,
                    self._rollout_view.newest(specs[name]),
                    tuple(staying),
                    has_target,
                    drifted if rollout.phase is PoolPhase.SETTLED else 0,
                )
            )
        return record.version_of_spec, tuple(pools)

    async def _end(self, name: str) -> None:
        """The NodeRollout is gone: its workflow looks, and ends."""
        handle = self._client.get_workflow_handle(names.rollout_id(self._cluster, name))
        try:
            await handle.signal(RolloutWorkflow.poke, rpc_timeout=ANSWER_WITHIN)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
        self._poked.pop(name, None)
        self._restart_at.pop(name, None)

    async def _validate(self, record: ObjectRecord) -> None:
        _, faults = self._view.node_rollout(record)
        written = record.status.get("conditions") or []
        before = NodeRolloutStatus.model_validate({"conditions": written}).conditions
        after = with_validation(
            before,
            [str(fault) for fault in faults],
            reason=INVALID,
            consequence="No wave begins until then",
            now=utc_now(),
            generation=record.metadata.get("generation"),
        )
        if after != before:
            body = {"status": {"conditions": [condition.to_dict() for condition in after]}}
            await self._kube.patch(NODEROLLOUTS, record.name, body, subresource="status")
