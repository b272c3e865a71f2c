"""Keeps the number of nodes of static NodePools: makes and deletes NodeClaims until `spec.replicas` of them stand.

The cache says when there may be something to do. Before anything is made or deleted the NodePool and its NodeClaims are
read from the API server, and what to do is decided anew: names follow from what is read, so a cache that is behind, a
repeat, or a second leader for a moment makes nothing twice. The rest of a node's life is its workflow's.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from activities import metrics
from activities.ec2.errors import EC2Error
from activities.kubernetes.client import Kube, Object
from activities.kubernetes.errors import ApiError, Conflict
from activities.kubernetes.resources import NODECLAIMS, NODEPOOLS
from activities.planning.ports import Types
from activities.planning.selling import sold_by
from tenon.apis import labels
from tenon.apis.nodepool import NodePool
from tenon.apis.validation import parse
from tenon.disruption.cost import rescheduling_cost
from tenon.lifecycle.instants import parse_instant
from tenon.lifecycle.protection import protected_for
from tenon.provisioning.claims import standing_claim
from tenon.provisioning.policy import PlanPolicy
from tenon.provisioning.static import StaticClaim, StaticDecision, decide, why_none_are_made
from tenon.provisioning.static_node import NoStaticNode, static_node
from worker.cache.changes import Topic
from worker.cache.cluster import ClusterCache
from worker.cache.moving import leaving
from worker.cache.records import ObjectRecord, PodRecord
from worker.repeats import Sparingly
from worker.static_patience import Patience
from worker.view import CachedView

log = logging.getLogger("controller.static")

SETTLE = 0.2
"""Seconds in which changes gather before pools are looked at."""
RESYNC = 30.0
REASON = "overprovisioned"


class StaticKeeper:
    """Serves every static NodePool."""

    def __init__(self, kube: Kube, cache: ClusterCache, view: CachedView, types: Types, policy: PlanPolicy) -> None:
        """``policy``: what the operator set that bears on which types a node may have."""
        self._kube = kube
        self._cache = cache
        self._view = view
        self._types = types
        self._policy = policy
        self._patience: dict[tuple[str, int], Patience] = {}
        """By UID and generation of the NodePool."""
        self._sparingly = Sparingly()

    async def run(self) -> None:
        """Serve until cancelled."""
        topics = [Topic.POOL, Topic.NODECLASS, Topic.CLAIM, Topic.NODE]
        with self._cache.subscribe(topics) as news:
            await self._cache.wait_synced()
            while True:
                static = [record for record in self._cache.pools if record.spec.get("replicas") is not None]
                self._forget_all_but({record.uid for record in static})
                await asyncio.gather(*(self._attend(record) for record in static))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(RESYNC):
                        await news.next()
                await asyncio.sleep(SETTLE)
                news.take()

    async def _attend(self, record: ObjectRecord) -> None:
        try:
            await self._keep(record)
        except (ApiError, EC2Error) as error:
            self._complain(record.name, f"its NodeClaims could not be kept: {error}")
        except Exception:  # a fault of one NodePool's making must not end the service of all others
            if self._sparingly.count(record.name) is not None:
                log.exception("static NodePool could not be served", extra={"nodepool": record.name})

    async def _keep(self, record: ObjectRecord) -> None:
        pool = self._view.node_pool(record)
        if pool is None:
            return  # it says so itself
        patience = self._patience_of(pool)
        claims = [claim for claim in self._cache.claims if claim.labels.get(labels.NODEPOOL) == record.name]
        known = self._facts(claims)
        patience.seen(known)
        decision = decide(pool, known, patience.used)
        if decision.held_back:
            self._complain(record.name, f"limits.nodes keeps {decision.held_back} of its replicas from being made")
        if not (decision.create or decision.delete):
            return
        fresh, known = await self._read(record)
        if fresh is None:
            return
        patience = self._patience_of(fresh)
        now = asyncio.get_running_loop().time()
        patience.read(known, now)
        decision = decide(fresh, known, patience.used)
        await self._delete(fresh, decision, patience)
        if decision.create:
            why = why_none_are_made(fresh, self._view.node_class)
            if why:
                self._complain(record.name, why)
            elif (seconds := patience.wait(now)) > 0:
                self._complain(record.name, f"nothing could be launched for it: tried again in {seconds:.0f} s")
            else:
                await self._create(fresh, decision, patience)

    async def _read(self, record: ObjectRecord) -> tuple[NodePool | None, list[StaticClaim]]:
        """The NodePool and its NodeClaims as the API server has them now; no pool when it is gone or unreadable."""
        body = await self._kube.get(NODEPOOLS, record.name)
        if body is None or body["metadata"]["uid"] != record.uid:
            return None, []
        listed = await self._kube.list(NODECLAIMS, label_selector=f"{labels.NODEPOOL}={record.name}")
        return parse(NodePool, body)[0], self._facts(map(_record, listed))

    async def _delete(self, pool: NodePool, decision: StaticDecision, patience: Patience) -> None:
        for claim in decision.delete:
            patience.taken_away(claim.name)
            if await self._kube.delete(NODECLAIMS, claim.name, uid=claim.uid):
                log.info(
                    "deleted a nodeclaim of a static NodePool",
                    extra={"nodeclaim": claim.name, "nodepool": pool.metadata.name, "reason": REASON},
                )

    async def _create(self, pool: NodePool, decision: StaticDecision, patience: Patience) -> None:
        name = pool.metadata.name
        try:
            seen = await sold_by(self._view, self._types, [pool])
            planned = await asyncio.to_thread(
                static_node, pool, seen.sold[0][1], self._view.daemons(), self._view.namespaces(), self._policy
            )
        except NoStaticNode as error:
            self._complain(name, f"no node can be made for it: {error}")
            return
        for claim in decision.create:
            with contextlib.suppress(Conflict):  # another leader made it from the same list
                body = standing_claim(planned, pool, claim)
                body["metadata"]["annotations"] |= seen.traces(name, planned.instance_types)
                await self._kube.create(NODECLAIMS, body)
                metrics.CLAIMS_CREATED.labels("provisioned", name, str(planned.min_values_relaxed).lower()).inc()
                log.info(
                    "created a nodeclaim of a static NodePool",
                    extra={"nodeclaim": claim, "nodepool": name, "instance-type-options": len(planned.instance_types)},
                )
            patience.made(claim)

    def _patience_of(self, pool: NodePool) -> Patience:
        """What is remembered of this version of the pool; older ones are forgotten, and their names do not return."""
        key = (pool.metadata.uid or "", pool.metadata.generation or 0)
        if key not in self._patience:
            self._patience = {known: kept for known, kept in self._patience.items() if known[0] != key[0]}
            self._patience[key] = Patience()
        return self._patience[key]

    def _forget_all_but(self, uids: set[str]) -> None:
        self._patience = {key: kept for key, kept in self._patience.items() if key[0] in uids}

    def _facts(self, claims: Iterable[ObjectRecord]) -> list[StaticClaim]:
        now = datetime.now(UTC)
        return [self._fact(claim, now) for claim in claims]

    def _fact(self, claim: ObjectRecord, now: datetime) -> StaticClaim:
        node = self._cache.node_of(claim)
        pods = [pod for pod in self._cache.pods_on(node.name) if pod.reschedulable] if node is not None else []
        keep_until = parse_instant(claim.annotations.get(labels.KEEP_UNTIL))
        marked = [claim.annotations, node.annotations if node is not None else {}]
        return StaticClaim(
            name=claim.name,
            uid=claim.uid,
            created=str(claim.body["metadata"].get("creationTimestamp") or ""),
            launched=bool(claim.status.get("providerID")),
            leaving=leaving(node, claim),
            empty=not pods,
            cost=rescheduling_cost((pod.pod.priority, pod.deletion_cost) for pod in pods),
            protected=any(annotations.get(labels.DO_NOT_DISRUPT) == "true" for annotations in marked)
            or (keep_until is not None and keep_until > now)
            or any(_held(pod, now) for pod in pods),
        )

    def _complain(self, pool: str, why: str) -> None:
        if self._sparingly.count((pool, why[:40])) is not None:
            log.warning("static NodePool lacks nodes", extra={"nodepool": pool, "error": why})


def _held(pod: PodRecord, now: datetime) -> bool:
    started = datetime.fromtimestamp(pod.bound_at, UTC) if pod.bound_at else None
    return bool(protected_for(pod.do_not_disrupt, started, now))


def _record(body: Object) -> ObjectRecord:
    """A listed NodeClaim as the cache would hold it."""
    metadata: dict[str, Any] = body["metadata"]
    return ObjectRecord(metadata["name"], metadata["uid"], metadata["resourceVersion"], body)
