"""The activities of one node's life, under the names that the Temporal UI shows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from temporalio import activity

from activities import metrics
from activities.ec2.errors import EC2Error
from activities.ec2.provider import Ec2Provider
from activities.ec2.termination_batch import TERMINATED, Endings
from activities.heartbeat import beating
from activities.kubernetes import binding, cordon, drain, initialization, nodeclaims, registration, release, volumes
from activities.kubernetes.client import Kube, Object
from activities.kubernetes.errors import ApiError
from activities.kubernetes.events import EventRecorder
from activities.launch_breakers import LaunchBreakers
from activities.launch_groups import bought_for, in_group
from activities.launching import SHOWS_WITHIN, TAGGED, Launching
from tenon.apis import labels
from tenon.apis.reasons import Reason, snake_case
from tenon.kube.scheduler_config import NOTHING, DefaultSpread
from tenon.lifecycle.cordon import drain_reason
from tenon.lifecycle.messages import (
    ActivityName,
    BindResult,
    CordonInput,
    CordonResult,
    DetachInput,
    DetachResult,
    DrainInput,
    DrainResult,
    InitializeResult,
    KeepInput,
    LaunchInput,
    LaunchResult,
    NodeInput,
    PrepareLaunchInput,
    PrepareLaunchResult,
    RegisterResult,
    ReleaseInput,
    TerminateInput,
    TerminateResult,
)
from tenon.lifecycle.steps import KeepRecorded, Withdrawn

log = logging.getLogger("controller.nodeclaim.lifecycle")

SCHEDULER_SECONDS = 2.0
"""How long kube-scheduler is left alone with a node that has just become ready: it places what it knows of meanwhile.
Two who place pods in the same moment may give one node more than it can run, which its kubelet refuses."""
NAME_SECONDS = 5.0
"""How long a registration waits for EC2 to take the node's name; it is written afterwards too."""
TERMINATION_PATIENCE = 120.0
"""Seconds that one try waits for EC2 to end an instance."""
NAMING_THREADS = 4
"""Names are written slowly, inside EC2's limit for tags: they must not take the threads of other calls."""


def now() -> datetime:
    """The wall clock."""
    return datetime.now(UTC)


class NodeActivities:
    """A node's stages, each its own activity."""

    def __init__(
        self,
        kube: Kube,
        recorder: EventRecorder,
        ec2: Ec2Provider,
        initialization_timeout: timedelta | None = None,
        default_spread: DefaultSpread = NOTHING,
        breakers: LaunchBreakers | None = None,
    ) -> None:
        self._kube = kube
        self._recorder = recorder
        self._ec2 = ec2
        self._default_spread = default_spread
        self._endings = Endings(ec2)
        self._naming = ThreadPoolExecutor(NAMING_THREADS, thread_name_prefix="naming")
        self._names: set[asyncio.Task[None]] = set()
        self._launching = Launching(kube, recorder, ec2, now, initialization_timeout, breakers)

    @activity.defn(name=ActivityName.PREPARE_LAUNCH)
    async def prepare_launch(self, given: PrepareLaunchInput) -> PrepareLaunchResult:
        """Choose instance types, subnets and templates; the answer is recorded before anything is bought."""
        return await self._launching.prepare(given)

    @activity.defn(name=ActivityName.LAUNCH)
    async def launch(self, given: LaunchInput) -> LaunchResult:
        """Buy: one CreateFleet with the recorded token."""
        return await self._launching.launch(given)

    @activity.defn(name=ActivityName.REGISTER)
    async def register(self, given: NodeInput) -> RegisterResult:
        """Adopt the Node that joined."""
        result = await registration.register(self._kube, self._recorder, given, now)
        if result.node_name:
            raw = await nodeclaims.read_claim(self._kube, given.claim) or {"metadata": {}}
            found = raw["metadata"].get("labels") or {}
            pool, zone = found.get(labels.NODEPOOL, ""), found.get(labels.ZONE, "")
            metrics.NODES_CREATED.labels(pool, zone).inc()
            name = asyncio.create_task(self._name_instance(given, result.node_name, tells=in_group(raw)))
            self._names.add(name)
            name.add_done_callback(self._names.discard)
            await asyncio.wait({name}, timeout=NAME_SECONDS)
            log.info("registered node", extra={"nodeclaim": given.claim.name, "node": result.node_name})
        return result

    async def _name_instance(self, given: NodeInput, node_name: str, *, tells: bool) -> None:
        """For people who look at EC2; what is refused now, housekeeping writes later.

        ``tells``: only these tags lead from the instance to its claim, which says so afterwards.
        """
        instance_id = given.provider_id.rsplit("/", 1)[-1]
        name = partial(self._ec2.name_instance, instance_id, given.claim.name, node_name)
        try:
            await asyncio.get_running_loop().run_in_executor(self._naming, name)
            if tells:
                await nodeclaims.annotate_claim(self._kube, given.claim, TAGGED)
        except (EC2Error, ApiError) as error:
            log.info("instance not named yet", extra={"id": instance_id, "error": str(error)})

    @activity.defn(name=ActivityName.INITIALIZE)
    async def initialize(self, given: NodeInput) -> InitializeResult:
        """Check that the Node can run what it was bought for."""
        result = await initialization.initialize(self._kube, given, now)
        if result.initialized:
            log.info("initialized node", extra={"nodeclaim": given.claim.name, "node": given.node_name})
        return result

    @activity.defn(name=ActivityName.BIND)
    async def bind(self, given: NodeInput) -> BindResult:
        """Bind those of the pods that the node was bought for which kube-scheduler has not placed by itself."""
        result = await binding.bind(self._kube, given, lambda: asyncio.sleep(SCHEDULER_SECONDS), self._default_spread)
        log.info(
            "bound pods",
            extra={
                "nodeclaim": given.claim.name,
                "node": given.node_name,
                "bound": result.bound,
                "planned": result.planned,
                "left": result.left,
            },
        )
        return result

    @activity.defn(name=ActivityName.KEEP)
    async def keep(self, given: KeepInput) -> KeepRecorded:
        """Write an operator's wish on the claim."""
        await nodeclaims.record_keep(self._kube, given.claim, given.until)
        return KeepRecorded()

    @activity.defn(name=ActivityName.WITHDRAW)
    async def withdraw(self, given: NodeInput) -> Withdrawn:
        """Take the disruption taint off a node that stays: nothing followed it."""
        removed = await cordon.withdraw(self._kube, given.claim, given.node_name)
        if removed:
            log.info("took the disruption taint off", extra={"nodeclaim": given.claim.name, "node": given.node_name})
        return Withdrawn(removed=removed)

    @activity.defn(name=ActivityName.CORDON)
    async def cordon(self, given: CordonInput) -> CordonResult:
        """No pod comes any more."""
        result = await cordon.cordon(self._kube, self._recorder, given, now)
        message = "cordoned node" if result.cordoned else "node is not empty after all"
        extra = {"nodeclaim": given.claim.name, "node": result.node_name, "reason": given.reason}
        log.info(message, extra=extra)
        return result

    @activity.defn(name=ActivityName.DRAIN)
    async def drain(self, given: DrainInput) -> DrainResult:
        """Evict the pods, in waves."""
        result = await drain.drain(self._kube, self._recorder, given, now, activity.heartbeat)
        metrics.PODS_DRAINED.labels(drain_reason(given.reason)).inc(result.evicted)
        if result.drained:
            metrics.NODES_DRAINED.labels(given.pool).inc()
            log.info("drained node", extra={"nodeclaim": given.claim.name, "node": given.node_name})
        return result

    @activity.defn(name=ActivityName.DETACH_VOLUMES)
    async def detach_volumes(self, given: DetachInput) -> DetachResult:
        """Wait for the volumes of drained pods."""
        return await volumes.detach_volumes(self._kube, self._recorder, given, now, activity.heartbeat)

    @activity.defn(name=ActivityName.TERMINATE)
    async def terminate(self, given: TerminateInput) -> TerminateResult:
        """End the instance and wait until EC2 says that it is gone."""
        claim = None if given.instance_id else await nodeclaims.read_claim(self._kube, given.claim)
        instance_id = given.instance_id or _instance_of(claim)
        if not instance_id:
            found = await beating(bought_for(self._ec2, given.claim.name, claim))
            if found is None:
                settled = given.search_until is None or now() >= given.search_until
                return TerminateResult(terminated=settled, state="" if settled else "not visible, if there is one")
            instance_id = found.id
        await nodeclaims.mark_instance_terminating(self._kube, given.claim, now)
        state = await beating(self._endings.end(instance_id, TERMINATION_PATIENCE))
        if state is None and await self._may_not_be_shown_yet(given):
            return TerminateResult(state="not shown by EC2 yet")
        if state in (None, TERMINATED):
            log.info("terminated instance", extra={"nodeclaim": given.claim.name, "id": instance_id})
            return TerminateResult(terminated=True, state=state or "gone")
        return TerminateResult(state=state)

    async def _may_not_be_shown_yet(self, given: TerminateInput) -> bool:
        """Whether EC2, which knows nothing of the instance, may only be late: it has not shown it since its launch."""
        if given.shown:
            return False
        claim = await nodeclaims.read_claim(self._kube, given.claim)
        return claim is not None and now() - nodeclaims.launched_at(claim) < SHOWS_WITHIN

    @activity.defn(name=ActivityName.RELEASE)
    async def release(self, given: ReleaseInput) -> ReleaseInput:
        """Take the finalizers off; the last act."""
        released = await release.release(self._kube, given, self._recorder)
        _count_end(given)
        log.info(
            "deleted node",
            extra={"nodeclaim": given.claim.name, "node": given.node_name, "reason": given.reason},
        )
        return released

    def steps(self) -> Sequence[Callable[..., Any]]:
        """The activities that share slots, for a worker."""
        return [
            self.prepare_launch,
            self.launch,
            self.register,
            self.initialize,
            self.bind,
            self.keep,
            self.withdraw,
            self.cordon,
            self.release,
        ]

    def draining(self) -> Sequence[Callable[..., Any]]:
        """Those that wait for pods and volumes."""
        return [self.drain, self.detach_volumes]

    def ending(self) -> Sequence[Callable[..., Any]]:
        """The one that waits for an instance's end."""
        return [self.terminate]

    def all(self) -> Sequence[Callable[..., Any]]:
        """Every activity."""
        return [*self.steps(), *self.draining(), *self.ending()]


def _instance_of(claim: Object | None) -> str:
    """The instance that the claim names: a life that left before it looked knows of none, and its tag may lag."""
    provider_id = ((claim or {}).get("status") or {}).get("providerID") or ""
    return str(provider_id).rsplit("/", 1)[-1]


def _count_end(given: ReleaseInput) -> None:
    ended = now()
    metrics.CLAIMS_TERMINATED.labels(given.pool, given.capacity_type, given.zone).inc()
    reason = Reason.of(given.reason)
    if given.reason and not (reason and reason.is_by_hand):
        mode = reason.termination_mode if reason else "forceful"
        metrics.CLAIMS_DISRUPTED.labels(snake_case(given.reason), given.pool, given.capacity_type, "", mode).inc()
    if given.node_name:
        metrics.NODES_TERMINATED.labels(given.pool, given.zone).inc()
    if given.deletion_started_at is not None:
        took = (ended - given.deletion_started_at).total_seconds()
        metrics.CLAIM_TERMINATION_SECONDS.labels(given.pool).observe(took)
    if given.created_at is not None:
        metrics.NODE_LIFETIME_SECONDS.labels(given.pool).observe((ended - given.created_at).total_seconds())
