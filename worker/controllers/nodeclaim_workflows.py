"""From the cluster to the workflows: makes sure that each NodeClaim and EC2NodeClass has one, and pokes it when due.

Level-triggered: for each object the present level is computed from the cache, and sent when it differs from what was
sent last. A sweep once a minute compares the claims with the workflows that are open, so that one which an operator
terminated or reset, or a poke that was lost, is made good.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable
from typing import Any

from temporalio.client import Client
from temporalio.common import SearchAttributePair, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from tenon.apis import labels
from tenon.apis.nodeclaim import DISRUPTION_REASON
from tenon.kube.records import ObjectRecord
from tenon.kube.taints import Taint
from tenon.lifecycle.messages import ClaimRef, Poke
from tenon.lifecycle.state import NodeClaimInput
from tenon.lifecycle.wakeups import poke_for
from worker.cache.changes import Topic
from worker.cache.cluster import ClusterCache
from worker.controllers.keyed_tasks import Key, KeyedTasks
from worker.controllers.nodeclass_workflows import NodeClassWorkflowController
from worker.runtime.workflow_start import ANSWER_WITHIN, start
from workflows import names
from workflows.disruption import DisruptionInput, DisruptionWorkflow
from workflows.nodeclaim import NodeClaimWorkflow
from workflows.provisioner import ProvisionerInput, ProvisionerWorkflow

log = logging.getLogger("worker.controllers.nodeclaim_workflows")

SETTLE = 0.1
"""Seconds in which changes of one object gather before they are sent."""
SWEEP = 60.0
SWEEP_SOON = 5.0
"""Seconds until the next sweep where Temporal did not answer in full, or answered what may be over in a moment."""
RESEND_SWEEPS = 10
"""After so many sweeps a node that leaves is poked again although nothing changed; each poke costs some events."""
COMPLAINT_SECONDS = 60.0
SENDERS = 20
"""Calls to Temporal at the same time."""
PATIENCE = 1.0
"""Seconds after which calls that are not answered no longer hold up those about other objects."""
PAGE = 200
"""Workflows that Temporal lists at once: to decode a page holds up the event loop."""
PORTION = 200
"""Objects that are attended to at once: most need nothing, and to find that out for thousands takes its time."""


class NodeClaimWorkflowController:
    """Keeps the workflows of one cluster in step with its objects."""

    def __init__(self, client: Client, cache: ClusterCache, cluster: str, plan_queue: str = "") -> None:
        """``plan_queue``: where this leader is asked, for workflows that are started here."""
        self._client = client
        self._cache = cache
        self._cluster = cluster
        self._plan_queue = plan_queue
        self._sent: dict[str, Poke] = {}
        self._started: set[str] = set()
        self._ended: set[str] = set()
        """UIDs of claims whose life has come to its end: they are about to vanish from the cache."""
        self._served: set[str] = set()
        self._runs: dict[str, str] = {}
        self._classes = NodeClassWorkflowController(client, cache, cluster)
        self._gate = asyncio.Semaphore(SENDERS)
        self._tasks = KeyedTasks()
        self._soon = float("inf")
        """When a sweep is due before its turn."""
        self._sweeping = False
        self._complained = float("-inf")

    async def run(self) -> None:
        """Serve until cancelled."""
        try:
            await self._serve()
        finally:
            await self._tasks.close()

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        with self._cache.subscribe([Topic.CLAIM, Topic.NODECLASS]) as news:
            await self._cache.wait_synced()
            sweeps = 0
            while True:
                self._soon = float("inf")
                await self._retrying(self._start_singletons())
                await self._retrying(self._compare())
                self._forget_sent(all_of_them=sweeps % RESEND_SWEEPS == 0)
                self._classes.forget_started()
                self._sweeping = True
                await self._attend(
                    [claim.name for claim in self._cache.claims], [found.name for found in self._cache.nodeclasses]
                )
                self._sweeping = False
                sweeps += 1
                next_sweep = loop.time() + SWEEP
                while (due := min(next_sweep, self._soon)) > loop.time():
                    try:
                        # a call that fails meanwhile may want a sweep soon
                        async with asyncio.timeout_at(min(due, loop.time() + SWEEP_SOON)):
                            changes = await news.next()
                    except TimeoutError:
                        continue
                    await asyncio.sleep(SETTLE)
                    changes += news.take()
                    claims = {key for topic, key in changes if topic is Topic.CLAIM}
                    classes = {key for topic, key in changes if topic is Topic.NODECLASS}
                    if any(self._cache.claims.get(name) is None for name in claims):
                        classes |= {found.name for found in self._cache.nodeclasses if found.deleting}
                    await self._attend(claims, classes)

    def _forget_sent(self, *, all_of_them: bool) -> None:
        """Let levels that still hold be told again: of nodes that start each time, for pods wait for them."""
        self._sent = {
            name: poke
            for name, poke in self._sent.items()
            if not all_of_them and (poke.claim_deleting or poke.node_deleting)
        }

    def _sweep_soon(self) -> None:
        self._soon = min(self._soon, asyncio.get_running_loop().time() + SWEEP_SOON)

    async def _compare(self) -> None:
        """Forget what was done for claims whose workflow is not open, or is another run than was told of things."""
        query = names.open_nodeclaims_query(self._cluster)
        found = {
            execution.id: execution.run_id
            async for execution in self._client.list_workflows(query, page_size=PAGE, rpc_timeout=ANSWER_WITHIN)
        }
        for claim in self._cache.claims:
            run_id = found.get(names.nodeclaim_id(self._cluster, claim.name))
            if run_id is None:
                self._started.discard(claim.uid)
                self._sent.pop(claim.name, None)
            else:
                self._started.add(claim.uid)
                if self._runs.get(claim.name) != run_id:
                    self._sent.pop(claim.name, None)
        known = {claim.uid for claim in self._cache.claims}
        self._started &= known
        self._ended &= known
        self._runs = {workflow_id.rsplit("/", 1)[-1]: run_id for workflow_id, run_id in found.items()}
        for name in sorted(self._cache.claims.left_out & self._runs.keys()):
            # Begun by a version that did not look at nodeClassRef: it must end before it acts.
            handle = self._client.get_workflow_handle(names.nodeclaim_id(self._cluster, name))
            await handle.signal(
                NodeClaimWorkflow.poke, Poke(not_managed=True, reason="not managed"), rpc_timeout=ANSWER_WITHIN
            )

    async def _attend(self, claims: Iterable[str], classes: Iterable[str]) -> None:
        keys = [("claim", name) for name in sorted(claims)] + [("class", name) for name in sorted(classes)]
        for first in range(0, len(keys), PORTION):
            await self._tasks.work(keys[first : first + PORTION], self._attend_one, patience=PATIENCE)
            await asyncio.sleep(0)

    async def _attend_one(self, key: Key) -> None:
        kind, name = key
        await self._retrying(self._attend_claim(name) if kind == "claim" else self._classes.attend(name))

    async def _retrying(self, work: Coroutine[Any, Any, None]) -> None:
        """One object that cannot be served never stops the others; the next sweep comes back to it."""
        try:
            async with self._gate:
                await work
        except RPCError as error:
            self._sweep_soon()
            now = asyncio.get_running_loop().time()
            if now - self._complained >= COMPLAINT_SECONDS:  # one sentence speaks for all objects of an outage
                self._complained = now
                log.warning("Temporal did not take a message; the next sweep repeats it", extra={"error": str(error)})
        except Exception:  # a fault of one object's making must not end the service of all others
            log.exception("an object could not be served; the next sweep comes back to it")

    async def _attend_claim(self, name: str) -> None:
        claim = self._cache.claims.get(name)
        if claim is None:
            await self._tell_gone(name)
            return
        if claim.uid not in self._started and claim.uid not in self._ended and not _let_go(claim):
            await self._start_claim(claim)
        if claim.uid in self._ended:
            return
        self._served.add(name)
        poke = self._poke(claim)
        if poke is None or self._sent.get(name) == poke:
            return
        if poke.disrupted and not self._sweeping:
            return  # a node that leaves is seen like this for a moment between its taint and its deletion
        self._sent[name] = poke
        handle = self._client.get_workflow_handle(names.nodeclaim_id(self._cluster, name))
        try:
            await handle.signal(NodeClaimWorkflow.poke, poke, rpc_timeout=ANSWER_WITHIN)
        except RPCError as error:
            self._sent.pop(name, None)
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            # The workflow was ended by hand, or its last act is not yet seen here. Of a claim that is being deleted the
            # next sweep, which is soon, decides: a life that has just ended would get a second one with nothing in it.
            if not claim.deleting:
                await self._start_claim(claim)
            elif not _let_go(claim):
                self._sweep_soon()

    async def _tell_gone(self, name: str) -> None:
        """A claim that vanished without a deletion seen here: its workflow must end the instance all the same."""
        sent = self._sent.pop(name, None)
        if name not in self._served:
            return
        self._served.discard(name)
        if sent is not None and sent.claim_deleting:
            return
        handle = self._client.get_workflow_handle(names.nodeclaim_id(self._cluster, name))
        try:
            gone = Poke(claim_deleting=True, reason="gone")
            await handle.signal(NodeClaimWorkflow.poke, gone, rpc_timeout=ANSWER_WITHIN)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise

    def _poke(self, claim: ObjectRecord) -> Poke | None:
        node = self._cache.node_of(claim)
        return poke_for(
            claim_deleting=claim.deleting,
            registered=claim.condition("Registered").get("status") == "True",
            initialized=claim.condition("Initialized").get("status") == "True",
            startup_taints=[
                Taint(key=t["key"], effect=t["effect"], value=t.get("value") or "")
                for t in claim.spec.get("startupTaints") or ()
            ],
            node_name=node.name if node else "",
            several_nodes=self._cache.has_several_nodes(claim),
            node_ready=node.ready if node else False,
            node_deleting=node.deleting if node else False,
            node_taints=node.taints if node else (),
            disruption_reason=claim.condition(DISRUPTION_REASON).get("status") == "True",
        )

    async def _start_claim(self, claim: ObjectRecord) -> None:
        """Start its workflow, unless its life has come to its end: the cache may show the claim a moment longer."""
        try:
            await self._start_life(claim, WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY)
        except WorkflowAlreadyStartedError:
            if await self._life_of(claim.name) == claim.uid:
                self._ended.add(claim.uid)
                return
            await self._start_life(claim, WorkflowIDReusePolicy.ALLOW_DUPLICATE)  # of an earlier claim of that name
        self._started.add(claim.uid)

    async def _start_life(self, claim: ObjectRecord, reuse: WorkflowIDReusePolicy) -> None:
        pool = claim.labels.get(labels.NODEPOOL, "")
        await start(
            self._client,
            self._cluster,
            NodeClaimWorkflow.run,
            NodeClaimInput(claim=ClaimRef(cluster=self._cluster, name=claim.name, uid=claim.uid), pool=pool),
            names.nodeclaim_id(self._cluster, claim.name),
            summary=f"node of NodePool {pool}" if pool else "stand-alone node",
            attributes=[
                SearchAttributePair(names.STAGE, "launching"),
                *([SearchAttributePair(names.POOL, pool)] if pool else []),
            ],
            memo={names.UID_MEMO: claim.uid},
            reuse=reuse,
        )

    async def _life_of(self, name: str) -> str:
        """The UID of the claim of this name whose workflow ended last; empty when Temporal has forgotten it."""
        try:
            last = await self._client.get_workflow_handle(names.nodeclaim_id(self._cluster, name)).describe(
                rpc_timeout=ANSWER_WITHIN
            )
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return ""
            raise
        return await last.memo_value(names.UID_MEMO, "", type_hint=str)

    async def _start_singletons(self) -> None:
        await start(
            self._client,
            self._cluster,
            ProvisionerWorkflow.run,
            ProvisionerInput(cluster=self._cluster, plan_queue=self._plan_queue),
            names.provisioner_id(self._cluster),
            summary="pending pods -> NodeClaims",
        )
        await start(
            self._client,
            self._cluster,
            DisruptionWorkflow.run,
            DisruptionInput(cluster=self._cluster, plan_queue=self._plan_queue),
            names.disruption_id(self._cluster),
            summary="which nodes leave",
        )


def _let_go(claim: ObjectRecord) -> bool:
    """Whether a life has ended here, and only a finalizer of somebody else keeps the claim."""
    return claim.deleting and labels.TERMINATION_FINALIZER not in (claim.body["metadata"].get("finalizers") or ())
