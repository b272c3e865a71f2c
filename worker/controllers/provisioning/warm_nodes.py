"""Keeps the warm nodes of NodePools: has them bought, stops initialized ones, and starts those that plans use.

All of a warm node's state is on its NodeClaim and its Node, and each step may be repeated, so a worker that ends
between two steps leaves nothing undone. A NodeClaim has its mark from its creation until its node has started for pods,
so that other controllers expect its instance to stop.

A NodePool lacks a warm node from the moment that a plan uses it, so the next one is bought while that one starts.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from activities import metrics
from activities.clock import utc_now
from activities.cluster_view.interfaces import Types
from activities.ec2.stops import StopOutcome, StopReply
from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.event_references import claim_reference, pool_reference
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.nodeclaim_deletion import delete_with_finalizer
from activities.kubernetes.resources import NODECLAIMS, NODES
from activities.reported_gauges import report
from tenon.apis import labels
from tenon.apis.managed import manages_claim
from tenon.apis.nodepool import NodePool
from tenon.apis.reasons import Reason
from tenon.apis.warm import FILLING, STARTING, STATES, STOPPED, warm_count
from tenon.kube import object_json
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.event_reasons import EventReason
from tenon.kube.records import NodeRecord
from tenon.kube.stopped_times import started_now, stopped_now
from tenon.kube.timestamps import format_instant, from_epoch
from tenon.messages.node import Removal
from tenon.provisioning.planning_policy import PlanPolicy
from tenon.provisioning.static_capacity import StaticClaim
from tenon.provisioning.warm_nodes import WarmNode, WarmStep, next_step, refill
from worker.cache.changes import Change, Topic
from worker.cache.cluster import ClusterCache
from worker.cache.evacuating_pods import leaving
from worker.cache.planning_view import PlanningView
from worker.controllers.base import Controller
from worker.controllers.provisioning.launch_backoff import LaunchBackoffs
from worker.controllers.provisioning.purchase_turns import PurchaseTurns
from worker.controllers.provisioning.warm_purchases import WarmPurchases

ASK_AGAIN = 60.0
"""Seconds after which EC2 is asked again about an instance that has not done what EC2 accepted."""
ASK_LATER = 3.0
"""Seconds after which EC2 is asked again if it could not act at that moment."""
MAX_REFUSALS = 5
"""After so many refusals to stop an instance in a row, its NodeClaim is deleted: it costs its full price for nothing.
The pauses between double, so that is after a quarter of an hour."""
NO_PURCHASE = 3600.0
"""Seconds for which a NodePool gets no other warm node after EC2 has refused to stop one so often."""
WITHOUT_MARKS: Mapping[str, str | None] = dict.fromkeys((labels.WARM, labels.WARM_SINCE, labels.WARM_BOOT_ID))
"""The annotations of a NodeClaim that is no warm node any more."""
LOOKS = 15.0
"""Seconds between two looks at NodePools that have warm nodes, even without a change."""


class WarmInstances(Protocol):
    """What EC2 does with instances. Both calls block."""

    def stop(self, instance_id: str) -> StopReply:
        """Stop an instance."""

    def start(self, instance_id: str) -> StopReply:
        """Start a stopped instance."""


class WarmNodeController(Controller):
    """Brings every warm node, and the number of warm nodes of each NodePool, closer to what they are to be."""

    name = "nodepool.warm"
    object_field = "nodeclaim"
    topics = (Topic.POOL, Topic.NODECLASS, Topic.CLAIM, Topic.NODE)
    settle = 0.2

    def __init__(
        self,
        kube: Kube,
        recorder: EventPublisher,
        cache: ClusterCache,
        view: PlanningView,
        types: Types,
        instances: WarmInstances,
        policy: PlanPolicy,
        turns: PurchaseTurns,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """``policy``: the operator's settings that limit which instance types a node may have."""
        super().__init__(cache)
        self._kube = kube
        self._recorder = recorder
        self._view = view
        self._instances = instances
        self._purchases = WarmPurchases(kube, recorder, cache, view, types, policy, turns)
        self._now = now
        self._none_left = False
        """Whether the last look found no warm node and no NodePool that keeps some. Most clusters have none."""
        self._ask_at: dict[tuple[str, WarmStep], float] = {}
        """When EC2 may be asked next for a step of a NodeClaim, by its UID."""
        self._refusals: dict[str, int] = {}
        """How often in a row EC2 has refused to stop the instance of a NodeClaim, by its UID."""
        self._buy_from: dict[str, tuple[tuple[object, ...], float]] = {}
        """By UID of a NodePool whose warm nodes EC2 does not stop: its spec's version then, and when this version may
        get another one.
        """
        self._backoffs = LaunchBackoffs()

    async def reconcile(self, changes: Sequence[Change]) -> float | None:  # noqa: ARG002
        """Look at all warm nodes, and at all NodePools that keep some."""
        pools = [pool for pool in self._cache.pools if labels.WARM in (pool.metadata.get("annotations") or {})]
        if not pools and self._none_left:
            return None
        by_pool: defaultdict[str, list[WarmNode]] = defaultdict(list)
        for claim in self._cache.claims:
            if claim.warm:
                by_pool[claim.pool].append(self._warm_node(claim))
        self._none_left = not by_pool and not pools
        self._count(by_pool)
        nodes = [node for pool_nodes in by_pool.values() for node in pool_nodes]
        await asyncio.gather(*(self.isolate(node.claim.name, self._advance(node)) for node in nodes))
        # the annotation of a NodePool may be gone, and its warm nodes are too many then
        names = by_pool.keys() | {pool.name for pool in pools}
        await asyncio.gather(*(self.isolate(name, self._refill(name)) for name in sorted(names)))
        records = [record for name in names if (record := self._cache.pools.get(name)) is not None]
        self._forget({node.claim.uid for node in nodes}, {record.uid for record in records})
        if any(node.claim.warm == STARTING for node in nodes):
            return ASK_LATER
        return LOOKS if nodes or pools else None

    def _warm_node(self, claim: ClaimRecord) -> WarmNode:
        node = self._cache.node_of(claim)
        if node is None:
            return WarmNode(claim, leaving=leaving(None, claim))
        return WarmNode(
            claim,
            leaving=leaving(node, claim),
            has_node=True,
            ready=node.ready,
            boot_id=node.boot_id,
            tainted=any((taint.key, taint.effect) == labels.WARM_TAINT for taint in node.taints),
            pods_since=self._pods_since(node.name),
        )

    def _pods_since(self, node_name: str) -> datetime | None:
        """When the first of the pods was bound that would be lost if the instance stopped; None if it has none."""
        now = self._now()
        times = (
            from_epoch(pod.bound_at) or now
            for pod in self._cache.pods_by_key(node_name).values()
            if not (pod.terminal or pod.daemon or pod.mirror)
        )
        return min(times, default=None)

    async def _advance(self, node: WarmNode) -> None:
        claim = node.claim
        match next_step(node, self._now()):
            case WarmStep.STOP:
                await self._stop(node)
            case WarmStep.START:
                await self._start(claim)
            case WarmStep.UNTAINT:
                await self._untaint(claim)
            case WarmStep.FINISH:
                await self._finish(claim)
            case WarmStep.USE:
                await self._use(claim)
            case WarmStep.GIVE_UP:
                await self._give_up(claim, "lost", "its instance was started and its Node did not become Ready")
            case WarmStep.WAIT:
                return

    async def _stop(self, node: WarmNode) -> None:
        claim = node.claim
        cached_node = self._cache.node_of(claim)
        if cached_node is None or not self._may_ask(claim, WarmStep.STOP):
            return
        if not node.tainted:  # somebody removed the taint
            await self._change_taint(cached_node, add=True)
        reply = await asyncio.to_thread(self._instances.stop, claim.instance_id)
        if reply.outcome is not StopOutcome.ACCEPTED:
            self._ask_later(claim, WarmStep.STOP, reply.outcome)
            self._say(claim, reply)
            if reply.outcome is StopOutcome.REFUSED:
                await self._not_stopped(claim, reply.message)
            return
        self._refusals.pop(claim.uid, None)
        now = self._now()
        marks = {
            labels.WARM: STOPPED,
            labels.WARM_SINCE: format_instant(now),
            labels.WARM_BOOT_ID: node.boot_id,
            **stopped_now(claim.annotations, now),
        }
        marked = await self._mark(claim, (FILLING, STOPPED), marks)
        if marked and claim.warm == FILLING:
            text = "the node is initialized, and its instance is stopped until pods need it"
            await self._recorder.publish(claim_reference(claim.name, claim.uid), EventReason.WARM_NODE_STOPPED, text)
            self._log.info("A warm node is stopped", extra={"nodeclaim": claim.name, "nodepool": claim.pool})

    async def _not_stopped(self, claim: ClaimRecord, message: str) -> None:
        """Tell the owner of the NodePool, ask later and later, and delete the NodeClaim in the end."""
        refusals = self._refusals[claim.uid] = self._refusals.get(claim.uid, 0) + 1
        now = asyncio.get_running_loop().time()
        self._ask_at[claim.uid, WarmStep.STOP] = now + ASK_AGAIN * 2 ** min(refusals - 1, MAX_REFUSALS)
        await self._tell_pool(claim, f"EC2 does not stop the instance of NodeClaim {claim.name}: {message}")
        if refusals < MAX_REFUSALS:
            return
        record = self._cache.pools.get(claim.pool)
        if record is not None:
            self._buy_from[record.uid] = record.version_of_spec, now + NO_PURCHASE
        await self._delete(claim, Reason.WARM_STOP_FAILED, f"EC2 does not stop its instance: {message}")

    async def _tell_pool(self, claim: ClaimRecord, text: str) -> None:
        record = self._cache.pools.get(claim.pool)
        pool = self._view.node_pool(record) if record is not None else None
        if pool is not None:
            await self._recorder.publish(pool_reference(pool), EventReason.WARM_NODES_LACKING, text)

    async def _start(self, claim: ClaimRecord) -> None:
        if not self._may_ask(claim, WarmStep.START):
            return
        reply = await asyncio.to_thread(self._instances.start, claim.instance_id)
        self._ask_later(claim, WarmStep.START, reply.outcome)
        if reply.outcome is StopOutcome.REFUSED:
            await self._tell_pool(claim, f"EC2 does not start the instance of NodeClaim {claim.name}: {reply.message}")
            await self._give_up(claim, "refused", f"EC2 does not start its instance: {reply.message}")
        elif reply.outcome is StopOutcome.LATER:
            self._say(claim, reply)

    async def _untaint(self, claim: ClaimRecord) -> None:
        node = self._cache.node_of(claim)
        if node is not None:
            await self._change_taint(node, add=False)

    async def _use(self, claim: ClaimRecord) -> None:
        """Leave the node to the pods that are there. Another warm node is bought, because it counts no more."""
        marks = {**WITHOUT_MARKS, **started_now(claim.annotations, self._now())}
        if await self._mark(claim, (FILLING, STOPPED), marks):
            text = "pods that tolerate its taint stay on it, so it is not stopped, and takes other pods too"
            await self._recorder.publish(claim_reference(claim.name, claim.uid), EventReason.WARM_NODE_USED, text)
            extra = {"nodeclaim": claim.name, "nodepool": claim.pool}
            self._log.info("A warm node becomes an ordinary one, because pods stay on it", extra=extra)

    async def _finish(self, claim: ClaimRecord) -> None:
        if await self._mark(claim, (STARTING,), WITHOUT_MARKS):
            metrics.WARM_STARTS.labels(claim.pool, "joined").inc()
            text = "its instance was started, has booted and takes pods"
            await self._recorder.publish(claim_reference(claim.name, claim.uid), EventReason.WARM_NODE_STARTED, text)
            self._log.info("A warm node has started", extra={"nodeclaim": claim.name, "nodepool": claim.pool})

    async def _give_up(self, claim: ClaimRecord, result: str, why: str) -> None:
        """Delete the NodeClaim. Its pods are planned again as soon as it leaves, and get an ordinary launch."""
        subject = claim_reference(claim.name, claim.uid)
        await self._recorder.publish(subject, EventReason.WARM_NODE_NOT_STARTED, why)
        if await self._delete(claim, Reason.WARM_START_FAILED, why):
            metrics.WARM_STARTS.labels(claim.pool, result).inc()

    async def _delete(self, claim: ClaimRecord, reason: Reason, detail: str) -> bool:
        removal = Removal(reason=reason, detail=detail, actor=f"controller {self.name}")
        if not await delete_with_finalizer(self._kube, claim, removal):
            return False
        mode, capacity_type = claim.termination_mode, claim.labels.get(labels.CAPACITY_TYPE, "")
        metrics.CLAIMS_DISRUPTED.labels(reason, claim.pool, capacity_type, "", mode).inc()
        self._log.info(
            "The controller deleted the NodeClaim of a warm node",
            extra={"nodeclaim": claim.name, "nodepool": claim.pool, "reason": reason.value},
        )
        return True

    async def _mark(self, claim: ClaimRecord, states: Sequence[str], marks: Mapping[str, str | None]) -> bool:
        """Write the annotations, unless a plan or a deletion came first. Returns whether they are written."""
        is_marked = False

        def compute(body: Mapping[str, Any]) -> dict[str, Any]:
            nonlocal is_marked
            is_marked = not object_json.is_deleting(body) and object_json.annotations(body).get(labels.WARM) in states
            return {"metadata": {"annotations": dict(marks)}} if is_marked else {}

        await change(self._kube, NODECLAIMS, claim.name, compute, uid=claim.uid)
        return is_marked

    async def _change_taint(self, node: NodeRecord, *, add: bool) -> None:
        key, effect = labels.WARM_TAINT

        def compute(body: Mapping[str, Any]) -> dict[str, Any]:
            taints = (body.get("spec") or {}).get("taints") or []
            others = [taint for taint in taints if (taint.get("key"), taint.get("effect")) != labels.WARM_TAINT]
            result = [*others, {"key": key, "effect": effect}] if add else others
            return {} if len(result) == len(taints) else {"spec": {"taints": result}}

        await change(self._kube, NODES, node.name, compute, uid=node.uid)

    def _may_ask(self, claim: ClaimRecord, step: WarmStep) -> bool:
        """Whether EC2 may be asked now. If so, it is not asked again for a while."""
        now = asyncio.get_running_loop().time()
        if now < self._ask_at.get((claim.uid, step), 0.0):
            return False
        self._ask_at[claim.uid, step] = now + ASK_AGAIN
        return True

    def _ask_later(self, claim: ClaimRecord, step: WarmStep, outcome: StopOutcome) -> None:
        if outcome is StopOutcome.LATER:
            self._ask_at[claim.uid, step] = asyncio.get_running_loop().time() + ASK_LATER

    def _say(self, claim: ClaimRecord, reply: StopReply) -> None:
        if self._log_limiter.count((claim.uid, reply.message[:40])) is not None:
            self._log.warning(
                "EC2 does not stop or start a warm node now, and the controller retries",
                extra={"nodeclaim": claim.name, "instance": claim.instance_id, "error": reply.message},
            )

    def _launching(self, name: str) -> NodePool | None:
        """A NodePool as it launches nodes now. None if it is gone or cannot be parsed, which its controller reports."""
        record = self._cache.pools.get(name)
        spec = self._view.node_pool(record) if record is not None else None
        return self._view.launching(spec) if spec is not None else None

    async def _refill(self, name: str) -> None:
        """Buy the warm nodes that a NodePool lacks, or delete those that are too many, by a fresh list of NodeClaims.

        That takes a while for many. So the NodePool is read again for each: its owner may have corrected the number.
        """
        record, pool = self._cache.pools.get(name), self._launching(name)
        if record is None or pool is None:
            return
        cached_nodes = [self._warm_node(claim) for claim in self._cache.claims if claim.pool == name]
        backoff = self._backoffs.of(pool)
        clock = asyncio.get_running_loop().time
        needed = refill(pool, [node for node in cached_nodes if node.claim.warm])
        if not needed.missing and not needed.delete:
            return
        version, buy_from = self._buy_from.get(record.uid, ((), 0.0))
        is_early = backoff.wait(clock()) or (version == record.version_of_spec and clock() < buy_from)
        if needed.missing and (is_early or self._purchases.cannot_buy(pool)):
            return
        bodies = await self._kube.list(NODECLAIMS, label_selector=f"{labels.NODEPOOL}={name}")
        nodes = [self._warm_node(ClaimRecord.of(body)) for body in bodies if manages_claim(body)]
        backoff.read([StaticClaim(node.claim, leaving=node.leaving) for node in nodes], clock())
        warm_nodes = [node for node in nodes if node.claim.warm]
        needed = refill(pool, warm_nodes)
        for number, claim in enumerate(needed.delete):
            pool = self._launching(name)
            if pool is None or len(refill(pool, warm_nodes).delete) <= number:
                return
            backoff.deleted(claim.name)
            await self._delete(
                claim, Reason.OVERPROVISIONED, f"NodePool {name} keeps {warm_count(pool.metadata.annotations)}"
            )
        for number in range(min(needed.missing, backoff.allowed_creations(clock()))):
            pool = self._launching(name)
            if pool is None or refill(pool, warm_nodes).missing <= number:
                return
            if not await self._purchases.buy(pool, self._backoffs.of(pool)):
                return

    def _count(self, by_pool: Mapping[str, Sequence[WarmNode]]) -> None:
        counts: dict[tuple[str, str], float] = {}
        for pool, nodes in by_pool.items():
            states = Counter(node.claim.warm for node in nodes if not node.leaving)
            counts |= {(pool, state): states[state] for state in STATES}
        report(metrics.WARM_NODES, counts)

    def _forget(self, claims: set[str], pools: set[str]) -> None:
        self._ask_at = {key: at for key, at in self._ask_at.items() if key[0] in claims}
        self._refusals = {uid: count for uid, count in self._refusals.items() if uid in claims}
        self._buy_from = {uid: at for uid, at in self._buy_from.items() if uid in pools}
        self._backoffs.forget_all_but(pools)
