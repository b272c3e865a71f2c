"""One batch: read the cluster, solve, write the NodeClaims.

A retry of the same batch finds the claims that it wrote before by their label; it never plans afresh.

The cache may be behind without knowing it: a watch that a proxy or a dead connection holds back looks like a quiet
one. Two things must not be stale, or nodes are bought twice.

- NodeClaims: batches follow one another and a watch keeps the order, so what the cache lacks is of the newest batch
  that it knows, or newer. One small list by label answers that, and whether this batch was planned before. What is
  missing is waited for a moment, then NodeClaims are read anew; what is really gone holds nothing up.
- Pods: with their watch silent for some seconds they are read anew, but only when something is about to be bought.
  Where there are many pods a silent watch is a broken one, and where there are few the list is cheap. The resource
  version of a list would prove nothing: it is the whole store's, which no event of one quiet resource ever reaches.

What else is stale (a node, a NodePool) makes a plan poorer, not doubled, until the watch is found silent.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from temporalio.exceptions import ApplicationError

from activities import metrics
from activities.kubernetes.client import Kube
from activities.kubernetes.events import EventRecorder
from activities.kubernetes.resources import NODECLAIMS
from activities.planning.batching import Batcher
from activities.planning.buffers import BufferRoom
from activities.planning.ports import ClusterView, Types
from activities.planning.selling import sold_by
from activities.planning.writing import write_claims
from tenon.apis import labels
from tenon.apis.nodepool import NodePool
from tenon.lifecycle.messages import PlanInput, PlanResult
from tenon.provisioning.facts import Fingerprint
from tenon.provisioning.overlays import Overlaid
from tenon.provisioning.policy import PlanPolicy
from tenon.provisioning.problem import explained, problem_of
from tenon.provisioning.readiness import usable_pools
from tenon.provisioning.solving import solved
from tenon.scheduling.model import Plan, Pod

log = logging.getLogger("controller.provisioner")

_T = TypeVar("_T")

EVENTS_PER_BATCH = 50
"""Pods of one batch that get an event of their own."""


@dataclass(frozen=True)
class _Decision:
    plan: Plan
    asking: Sequence[Pod]
    """All that the plan is for, pods of buffers among them."""
    seen: Overlaid
    ready: frozenset[str]
    """The nodes that were initialized."""
    fingerprint: Fingerprint
    took: float

    @property
    def pods(self) -> list[Pod]:
        """The pods that a cluster has."""
        return [pod for pod in self.asking if not pod.buffer]

    @property
    def pools(self) -> dict[str, NodePool]:
        """The pools that could be bought from."""
        return {pool.metadata.name: pool for pool, _ in self.seen.sold}


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
        policy: PlanPolicy | None = None,
        buffers: BufferRoom | None = None,
    ) -> None:
        """``policy``: what the operator set that bears on plans. ``buffers``: what CapacityBuffers ask for."""
        self._buffers = buffers or BufferRoom()
        self._view = view
        self._types = types
        self._kube = kube
        self._recorder = recorder
        self._batcher = batcher
        self._now = now
        self._policy = policy or PlanPolicy()
        self._one_at_a_time = asyncio.Lock()

    async def plan(self, given: PlanInput) -> PlanResult:
        """Decide the batch at hand and write its NodeClaims.

        A plan that Temporal gave up, or whose provisioner was ended, is still at work here and may yet write: the next
        one waits for it, and then sees what it wrote.
        """
        async with self._one_at_a_time:
            return await self._plan(given)

    async def _plan(self, given: PlanInput) -> PlanResult:
        written = await self._check_up_to_date(given)
        if written:
            log.info("batch was planned before", extra={"batch": given.batch, "nodeclaims": written})
            return PlanResult(batch=given.batch, claims=written)
        made = await self._decide(given)
        if made is not None and made.plan.claims and await self._caught_up(self._view.confirm_pods()):
            made = await self._decide(given)
        if made is None:
            return PlanResult(batch=given.batch)
        plan, pods = made.plan, made.pods
        metrics.UNSCHEDULABLE_PODS.labels("provisioner").set(
            sum(_waits(pod) and pod.key in plan.unschedulable for pod in pods)
        )
        metrics.QUEUE_DEPTH.labels("provisioner").set(0)
        metrics.IGNORED_PODS.set(sum(1 for pod in pods if pod.unsupported))
        claims = await write_claims(self._kube, plan, made.pools, given.batch, made.seen)
        self._remember(plan, made.asking, made.fingerprint)
        self._buffers.simulated(plan, made.ready, claims)
        await self._tell(plan, pods, claims)
        return PlanResult(
            batch=given.batch,
            claims=claims,
            pods=len(pods),
            placed_on_existing=sum(not pod.buffer for placed in plan.placements.values() for pod in placed),
            unschedulable=sum(pod.key in plan.unschedulable for pod in pods),
            price=round(sum(claim.price for claim in plan.claims), 6),
            digest=_digest(plan),
            solve_seconds=round(made.took, 4),
        )

    async def _decide(self, given: PlanInput) -> _Decision | None:
        """A plan for the pods that want one; None when none does."""
        fingerprint = self._view.fingerprint()  # before anything is read: what changes from here on counts as new
        if not self._batcher.undecided():
            return None
        pools = usable_pools(self._view.node_pools(), self._view.node_class)
        seen = await self._sold(pools, given)
        undecided = self._batcher.undecided()  # only now: EC2 may have taken seconds, and a pod may have gone meanwhile
        if not undecided:
            return None
        pods = [pod for pod in undecided if not pod.buffer]
        if pods:
            log.info("found provisionable pod(s)", extra={"pods": _some(pods), "count": len(pods)})
        asking = [*pods, *self._buffers.pods()]
        problem = problem_of(self._view, asking, seen.sold, self._policy, self._batcher.reserved())
        started = time.perf_counter()
        plan = explained(await asyncio.to_thread(solved, problem), self._view, asking)
        took = time.perf_counter() - started
        metrics.SCHEDULING_SECONDS.labels("provisioner").observe(took)
        ready = frozenset(node.name for node in problem.nodes if node.initialized)
        return _Decision(plan, asking, seen, ready, fingerprint, took)

    async def _check_up_to_date(self, given: PlanInput) -> list[str]:
        """The NodeClaims of this batch that exist; those of others are in the picture when this returns."""
        if not self._view.synced():
            raise ApplicationError("the cluster cache is not synced yet", type="CacheBehind")
        newest = self._view.newest_batch(given.batch)
        there = await self._kube.list(NODECLAIMS, label_selector=f"{labels.BATCH}>{max(0, newest - 1)}")
        batch_of = {claim["metadata"]["name"]: claim["metadata"]["labels"][labels.BATCH] for claim in there}
        written = sorted(name for name, batch in batch_of.items() if batch == str(given.batch))
        if not written:
            held = {claim.name for claim in self._view.claims()}
            if missing := batch_of.keys() - held:
                await self._caught_up(self._view.catch_up(missing))
        return written

    @staticmethod
    async def _caught_up(reading: Awaitable[_T]) -> _T:
        try:
            return await reading
        except TimeoutError:
            raise ApplicationError(
                "the cluster cache is behind the API server and could not be read anew", type="CacheBehind"
            ) from None

    async def _sold(self, pools: Sequence[NodePool], given: PlanInput) -> Overlaid:
        """The pools with what can be bought for each, as NodeOverlays want it seen."""
        now = self._now()
        unavailable = frozenset(
            (u.offering.capacity_type, u.offering.instance_type, u.offering.zone)
            for u in given.unavailable
            if u.until > now
        )
        return await sold_by(self._view, self._types, pools, unavailable)

    def _remember(self, plan: Plan, pods: Sequence[Pod], fingerprint: Fingerprint) -> None:
        by_key = {pod.key: pod for pod in pods}
        self._batcher.unschedulable([by_key[key] for key in plan.unschedulable], fingerprint)
        self._batcher.nominated(plan.placements)
        self._batcher.bought(pod.uid for claim in plan.claims for pod in claim.pods)

    async def _tell(self, plan: Plan, pods: Sequence[Pod], claims: Sequence[str]) -> None:
        waiting = {pod.key: pod for pod in pods if _waits(pod)}
        refused = [(waiting[key], why) for key, why in plan.unschedulable.items() if key in waiting]
        told = [
            self._recorder.publish(_reference(pod), "FailedScheduling", why, "Warning")
            for pod, why in refused[:EVENTS_PER_BATCH]
        ]
        places = [(f"nodeclaim/{name}", planned.pods) for name, planned in zip(claims, plan.claims, strict=True)]
        places = places[:EVENTS_PER_BATCH]
        places += [(f"node/{node}", placed) for node, placed in list(plan.placements.items())[:EVENTS_PER_BATCH]]
        for place, placed in places:
            told += [
                self._recorder.publish(_reference(pod), "Nominated", f"Pod should schedule on: {place}")
                for pod in placed[:10]
                if _waits(pod)
            ]
        for pod, why in refused[:EVENTS_PER_BATCH]:
            log.warning("could not schedule pod", extra={"pod": pod.key, "reason": why})
        await asyncio.gather(*told)


def _waits(pod: Pod) -> bool:
    """Whether the pod waits for a node; one that must leave its node runs, and nobody need hear of it yet.

    Nobody waits for a pod that stands for a buffer.
    """
    return not pod.node_name and not pod.buffer


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
