"""Keeps a workflow open for each NodeClaim, and pokes it when the claim or its Node changes.

Level-triggered: the controller computes the current level of each claim from the cache, and sends it if it differs from
the level that it last sent. A sweep once a minute compares the claims with the open workflows. It repairs what an
operator terminated or reset, and repeats pokes that were lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import datetime
from typing import Any

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from activities.clock import utc_now
from tenon.kube.claim_record import ClaimRecord
from tenon.messages.node import Poke
from tenon.node.pokes import is_known_to_workflow, poke_for
from tenon.node.registration import next_late
from worker.cache.changes import Change, Topic
from worker.cache.cluster import ClusterCache
from worker.controllers.base import Controller
from worker.controllers.keyed_tasks import KeyedTasks
from worker.controllers.node.vanished_claims import VanishedClaims
from worker.controllers.node.workflow_starts import WorkflowStarts
from worker.controllers.workflow_start import ANSWER_WITHIN
from workflows import names
from workflows.nodeclaim import NodeClaimWorkflow

SWEEP = 60.0
SWEEP_SOON = 5.0
"""Seconds until the next sweep if a call failed, or if Temporal's answer may soon be out of date."""
RESEND_SWEEPS = 10
"""A node that is leaving is poked again after this many sweeps, even if nothing changed. Each poke costs some
events.
"""
SENDERS = 20
"""Maximum number of concurrent calls to Temporal."""
TIMEOUT = 1.0
"""Seconds after which unanswered calls no longer hold up the calls for other objects."""
PAGE = 200
"""Workflows in one page of a listing, because decoding a page blocks the event loop."""
PORTION = 200
"""Objects that are reconciled at once. Most need nothing, but finding that out for thousands takes time."""


class NodeClaimWorkflowController(Controller):
    """Keeps the workflows of one cluster in sync with its NodeClaims, and its two singletons running."""

    name = "nodeclaim.workflows"
    object_field = "nodeclaim"
    topics = (Topic.CLAIM, Topic.VANISHED_CLAIM)
    settle = 0.1

    def __init__(
        self,
        client: Client,
        cache: ClusterCache,
        cluster: str,
        plan_queue: str = "",
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """``plan_queue``: the task queue of this leader, which the workflows started here use for planning."""
        super().__init__(cache)
        self._client = client
        self._cluster = cluster
        self._starts = WorkflowStarts(client, cluster, plan_queue)
        self._sent_pokes: dict[str, Poke] = {}
        self._started: set[str] = set()
        self._ended: set[str] = set()
        """UIDs of claims whose workflow has completed. They are about to vanish from the cache."""
        self._served: set[str] = set()
        self._vanished = VanishedClaims()
        self._runs: dict[str, str] = {}
        self._now = now
        self._late_at: dict[str, datetime] = {}
        """When the workflow of a claim without a Node must be poked next, because none has joined by then."""
        self._gate = asyncio.Semaphore(SENDERS)
        self._tasks = KeyedTasks()
        self._sweeps = 0
        self._sweep_at = float("-inf")
        """When the next sweep is due."""
        self._sweeping = False

    async def run(self) -> None:
        """Reconcile until cancelled."""
        try:
            await super().run()
        finally:
            await self._tasks.close()

    async def reconcile(self, changes: Sequence[Change]) -> float | None:
        """Start and poke the workflows of the claims that changed, or of all claims if a sweep is due."""
        clock = asyncio.get_running_loop().time
        self._note_vanished(changes, clock())
        claims = {name for _, name in changes} | self._late()
        if clock() >= self._sweep_at:
            await self._sweep(claims)
        else:
            await self._reconcile_claims(claims)
        # a call still running may fail and request a sweep soon
        return max(0.0, min(self._sweep_at - clock(), SWEEP_SOON))

    def _note_vanished(self, changes: Sequence[Change], now: float) -> None:
        vanished = {name for topic, name in changes if topic is Topic.VANISHED_CLAIM and name in self._served}
        for name in vanished:
            self._vanished.add(name, now)
        self._vanished.forget(now, self._cache.claims)
        count, claim_count = len(self._vanished), len(self._cache.claims)
        if vanished and self._vanished.are_too_many(claim_count) and self._log_limiter.count("vanished") is not None:
            self._log.warning(
                "Many NodeClaims vanished without a deletion, so their nodes stay until a sweep decides",
                extra={"vanished-count": count, "nodeclaim-count": claim_count},
            )

    def _late(self) -> set[str]:
        """The claims that are without a Node for so long now that their workflows must be poked."""
        now = self._now()
        return {name for name, at in self._late_at.items() if at <= now}

    async def _sweep(self, claims: Iterable[str]) -> None:
        self._sweep_at = float("inf")
        try:
            await self._isolate_call("", self._starts.start_singletons())
            await self._isolate_call("", self._compare())
            self._forget_sent(all_of_them=self._sweeps % RESEND_SWEEPS == 0)
            self._sweeping = True
            await self._reconcile_claims({claim.name for claim in self._cache.claims}.union(claims))
        finally:
            self._sweeping = False
            self._sweeps += 1
            self._sweep_at = min(self._sweep_at, asyncio.get_running_loop().time() + SWEEP)

    def _forget_sent(self, *, all_of_them: bool) -> None:
        """Forget which levels were sent, so that they are sent again. For nodes that start this happens at every sweep,
        because pods wait for them. A node that does not join in time is not asked about again so soon.
        """
        self._sent_pokes = {
            name: poke
            for name, poke in self._sent_pokes.items()
            if not all_of_them and (poke.claim_deleting or poke.node_deleting or poke.minutes_late)
        }

    def _sweep_soon(self) -> None:
        self._sweep_at = min(self._sweep_at, asyncio.get_running_loop().time() + SWEEP_SOON)

    async def _compare(self) -> None:
        """Forget what was sent to claims whose workflow is not open, or has a new run."""
        query = names.open_nodeclaims_query(self._cluster)
        open_runs = {
            execution.id: execution.run_id
            async for execution in self._client.list_workflows(query, page_size=PAGE, rpc_timeout=ANSWER_WITHIN)
        }
        for claim in self._cache.claims:
            run_id = open_runs.get(names.nodeclaim_id(self._cluster, claim.name))
            if run_id is None:
                self._started.discard(claim.uid)
                self._sent_pokes.pop(claim.name, None)
            else:
                self._started.add(claim.uid)
                self._ended.discard(claim.uid)  # a sweep of garbage collection may have started it again
                if self._runs.get(claim.name) != run_id:
                    self._sent_pokes.pop(claim.name, None)
        live_uids = {claim.uid for claim in self._cache.claims}
        self._started &= live_uids
        self._ended &= live_uids
        self._runs = {workflow_id.rsplit("/", 1)[-1]: run_id for workflow_id, run_id in open_runs.items()}

    async def _reconcile_claims(self, claims: Iterable[str]) -> None:
        claim_names = sorted(claims)
        for first in range(0, len(claim_names), PORTION):
            await self._tasks.work(claim_names[first : first + PORTION], self._reconcile_one, within=TIMEOUT)
            await asyncio.sleep(0)

    async def _reconcile_one(self, name: str) -> None:
        await self._isolate_call(name, self._reconcile_claim(name))

    async def _isolate_call(self, key: str, work: Coroutine[Any, Any, None]) -> None:
        async def bounded() -> None:
            try:
                async with self._gate:
                    await work
            except RPCError:
                self._sweep_soon()
                raise

        await self.isolate(key, bounded())

    async def _reconcile_claim(self, name: str) -> None:
        claim = self._cache.claims.get(name)
        self._remember_late(name, claim)
        if claim is None:
            await self._poke_deleted(name)
            return
        if claim.uid not in self._started and claim.uid not in self._ended and not _is_released(claim):
            await self._start_claim(claim)
        if claim.uid in self._ended:
            return
        self._served.add(name)
        poke = self._poke(claim)
        if poke is None or self._sent_pokes.get(name) == poke:
            return
        if poke.disrupted and not self._sweeping:
            return  # a node that leaves looks like this for a moment between its taint and its deletion
        self._sent_pokes[name] = poke
        if is_known_to_workflow(poke) and not self._sweeping:
            return  # a sweep sends it all the same, because an operator may have reset the workflow since
        handle = self._client.get_workflow_handle(names.nodeclaim_id(self._cluster, name))
        try:
            await handle.signal(NodeClaimWorkflow.poke, poke, rpc_timeout=ANSWER_WITHIN)
        except RPCError as error:
            self._sent_pokes.pop(name, None)
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            # An operator ended the workflow, or this cache has not seen its last write yet. If the claim is being
            # deleted, leave it to the next sweep, which is soon: starting now could run a second, empty workflow.
            if not claim.deleting:
                await self._start_claim(claim)
            elif not _is_released(claim):
                self._sweep_soon()

    def _remember_late(self, name: str, claim: ClaimRecord | None) -> None:
        """Remember when the claim must be looked at again if no Node joins: nothing changes in the cache then."""
        at = next_late(claim, self._now()) if claim is not None else None
        if at is None:
            self._late_at.pop(name, None)
        else:
            self._late_at[name] = at

    async def _poke_deleted(self, name: str) -> None:
        """Poke the workflow of a claim that vanished without a deletion seen here, because it must still terminate the
        instance. If many vanished, leave them to the sweep.
        """
        sent_poke = self._sent_pokes.pop(name, None)
        if name not in self._served:
            return
        self._served.discard(name)
        if sent_poke is not None and sent_poke.claim_deleting:
            return
        if name in self._vanished and self._vanished.are_too_many(len(self._cache.claims)):
            return
        handle = self._client.get_workflow_handle(names.nodeclaim_id(self._cluster, name))
        try:
            deletion = Poke(claim_deleting=True, claim_gone=True, reason="gone")
            await handle.signal(NodeClaimWorkflow.poke, deletion, rpc_timeout=ANSWER_WITHIN)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise

    def _poke(self, claim: ClaimRecord) -> Poke | None:
        several_nodes = self._cache.has_several_nodes(claim)
        return poke_for(claim, self._cache.node_of(claim), self._now(), several_nodes=several_nodes)

    async def _start_claim(self, claim: ClaimRecord) -> None:
        if await self._starts.start_claim(claim):
            self._started.add(claim.uid)
        else:
            self._ended.add(claim.uid)


def _is_released(claim: ClaimRecord) -> bool:
    """Whether Tenon is done with the node, and only finalizers of other controllers keep the claim."""
    return claim.deleting and not claim.has_finalizer
