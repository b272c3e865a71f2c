"""One batch: read the cluster, solve, write the NodeClaims.

A retry of the same batch finds the claims that it wrote before by their label; it never plans afresh.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from temporalio.exceptions import ApplicationError

from activities import metrics
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import Conflict
from activities.kubernetes.events import EventRecorder
from activities.kubernetes.resources import NODECLAIMS
from activities.planning.batching import Batcher
from activities.planning.ports import ClusterView, Types
from tenon.apis import labels
from tenon.apis.nodepool import NodePool
from tenon.lifecycle.messages import PlanInput, PlanResult
from tenon.provisioning.claims import claim_body
from tenon.provisioning.pools import scheduling_pool
from tenon.provisioning.readiness import usable_pools
from tenon.resources import add
from tenon.scheduling.engine import solve
from tenon.scheduling.model import Node, Plan, Pod, Pool, Problem

log = logging.getLogger("controller.provisioner")

EVENTS_PER_BATCH = 50
"""Pods of one batch that get an event of their own."""
WRITERS = 20
"""NodeClaims written at the same time."""


class Planner:
    """Plans batches on a live cluster."""

    def __init__(
        self,
        view: ClusterView,
        types: Types,
        kube: Kube,
        recorder: EventRecorder,
        batcher: Batcher,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._view = view
        self._types = types
        self._kube = kube
        self._recorder = recorder
        self._batcher = batcher
        self._now = now

    async def plan(self, given: PlanInput) -> PlanResult:
        """Decide the batch at hand and write its NodeClaims."""
        await self._check_up_to_date(given)
        label = f"{labels.BATCH}={given.batch}"
        written = await self._kube.list(NODECLAIMS, label_selector=label)
        if written:
            names = sorted(claim["metadata"]["name"] for claim in written)
            log.info("batch was planned before", extra={"batch": given.batch, "nodeclaims": names})
            return PlanResult(batch=given.batch, claims=names)
        fingerprint = self._view.fingerprint()  # before anything is read: what changes from here on counts as new
        pods = self._batcher.undecided()
        if not pods:
            return PlanResult(batch=given.batch)
        log.info("found provisionable pod(s)", extra={"pods": _some(pods), "count": len(pods)})
        pools = {pool.metadata.name: pool for pool in usable_pools(self._view.node_pools(), self._view.node_class)}
        problem = Problem(
            pods=pods,
            pools=await self._scheduling_pools(list(pools.values()), given),
            nodes=self._nodes(),
            daemons=list(self._view.daemons()),
        )
        started = time.perf_counter()
        plan = await asyncio.to_thread(solve, problem)
        took = time.perf_counter() - started
        metrics.SCHEDULING_SECONDS.labels("provisioner").observe(took)
        metrics.UNSCHEDULABLE_PODS.labels("provisioner").set(len(plan.unschedulable))
        metrics.QUEUE_DEPTH.labels("provisioner").set(0)
        metrics.IGNORED_PODS.set(sum(1 for pod in pods if pod.unsupported))
        claims = await self._write(plan, pools, given.batch)
        self._remember(plan, pods, fingerprint)
        await self._tell(plan, pods, claims)
        return PlanResult(
            batch=given.batch,
            claims=claims,
            pods=len(pods),
            placed_on_existing=sum(len(placed) for placed in plan.placements.values()),
            unschedulable=len(plan.unschedulable),
            price=round(sum(claim.price for claim in plan.claims), 6),
            digest=_digest(plan),
            solve_seconds=round(took, 4),
        )

    def _nodes(self) -> list[Node]:
        """Existing and in-flight capacity, less what earlier plans promised to pods that still wait."""
        promised = self._batcher.promised()
        return [
            replace(node, used=add(node.used, promised[node.name])) if node.name in promised else node
            for node in self._view.nodes()
        ]

    async def _check_up_to_date(self, given: PlanInput) -> None:
        """A plan on a cache that does not hold the last plan's claims would buy for the same pods again."""
        if not self._view.synced():
            raise ApplicationError("the cluster cache is not synced yet", type="CacheBehind")
        if given.last_plan is None:
            return
        held = {claim.name for claim in self._view.claims()}
        for name in sorted(set(given.last_plan.claims) - held):
            if await self._kube.get(NODECLAIMS, name) is not None:
                raise ApplicationError(f"the cluster cache does not hold NodeClaim {name} yet", type="CacheBehind")

    async def _scheduling_pools(self, pools: Sequence[NodePool], given: PlanInput) -> list[Pool]:
        now = self._now()
        unavailable = frozenset(
            (u.offering.capacity_type, u.offering.instance_type, u.offering.zone)
            for u in given.unavailable
            if u.until > now
        )
        result = []
        for pool in pools:
            node_class = self._view.node_class(pool.spec.template.spec.node_class_ref.name)
            assert node_class is not None  # usable_pools looked
            types = await asyncio.to_thread(self._types.instance_types, node_class, unavailable)
            result.append(scheduling_pool(pool, types, self._view.pool_usage(pool.metadata.name)))
        return result

    async def _write(self, plan: Plan, pools: dict[str, NodePool], batch: int) -> list[str]:
        gate = asyncio.Semaphore(WRITERS)

        async def write(body: dict[str, Any]) -> str:
            async with gate:
                try:
                    await self._kube.create(NODECLAIMS, body)
                except Conflict:
                    log.info("nodeclaim exists already", extra={"nodeclaim": body["metadata"]["name"]})
                return str(body["metadata"]["name"])

        bodies = []
        for ordinal, planned in enumerate(plan.claims):
            bodies.append(claim_body(planned, pools[planned.pool], batch=batch, ordinal=ordinal))
            metrics.CLAIMS_CREATED.labels("provisioned", planned.pool, "false").inc()
            log.info(
                "computed packing",
                extra={
                    "nodeclaim": bodies[-1]["metadata"]["name"],
                    "nodepool": planned.pool,
                    "pods": len(planned.pods),
                    "instance-types": list(planned.instance_types[:5]),
                    "instance-type-options": len(planned.instance_types),
                    "price": planned.price,
                },
            )
        answers = await asyncio.gather(*(write(body) for body in bodies), return_exceptions=True)
        for answer in answers:  # raised only when all have come to an end: a retry must find what was written
            if isinstance(answer, BaseException):
                raise answer
        return [str(answer) for answer in answers]

    def _remember(self, plan: Plan, pods: Sequence[Pod], fingerprint: object) -> None:
        uid = {pod.key: pod.uid for pod in pods}
        self._batcher.unschedulable([uid[key] for key in plan.unschedulable], fingerprint)
        self._batcher.nominated(plan.placements)
        self._batcher.bought(pod.uid for claim in plan.claims for pod in claim.pods)

    async def _tell(self, plan: Plan, pods: Sequence[Pod], claims: Sequence[str]) -> None:
        by_key = {pod.key: pod for pod in pods}
        told = [
            self._recorder.publish(_reference(by_key[key]), "FailedScheduling", why, "Warning")
            for key, why in list(plan.unschedulable.items())[:EVENTS_PER_BATCH]
        ]
        for name, planned in list(zip(claims, plan.claims, strict=True))[:EVENTS_PER_BATCH]:
            told += [
                self._recorder.publish(_reference(pod), "Nominated", f"Pod should schedule on: nodeclaim/{name}")
                for pod in planned.pods[:10]
            ]
        for node, placed in list(plan.placements.items())[:EVENTS_PER_BATCH]:
            told += [
                self._recorder.publish(_reference(pod), "Nominated", f"Pod should schedule on: node/{node}")
                for pod in placed[:10]
            ]
        for key, why in list(plan.unschedulable.items())[:EVENTS_PER_BATCH]:
            log.warning("could not schedule pod", extra={"pod": key, "reason": why})
        await asyncio.gather(*told)


def _reference(pod: Pod) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
    }


def _some(pods: Sequence[Pod]) -> str:
    shown = ", ".join(pod.key for pod in pods[:5])
    return f"{shown} and {len(pods) - 5} other(s)" if len(pods) > 5 else shown


def _digest(plan: Plan) -> str:
    """A short fingerprint of a plan, to see in histories whether two plans were the same."""
    text = repr([(c.pool, c.instance_types[:10], sorted(p.key for p in c.pods)) for c in plan.claims])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
