"""The activities of the NodeClaim workflow, under the names that the Temporal UI shows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from temporalio import activity

from activities import loggers, metrics
from activities.clock import utc_now
from activities.ec2.errors import EC2Error
from activities.ec2.provider import Ec2Provider
from activities.ec2.termination_batch import TERMINATED, Terminations
from activities.heartbeat import with_heartbeat
from activities.kubernetes import nodeclaims, nodepools
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.rate_limit import RequestClass, requests_as
from activities.node import binding, cordon, drain, initialization, registration, release, volumes
from activities.node.boot_failures import BootFailures
from activities.node.consoles import Consoles
from activities.node.finishing import finished
from activities.node.idle_replacements import IdleReplacements
from activities.node.launch_breakers import LaunchBreakers
from activities.node.launch_groups import in_group, living_instance
from activities.node.launching import Launching
from activities.node.learned_memory import LearnedMemory
from activities.node.lost_instances import launched_recently
from activities.record.writer import NO_RECORD, RecordWriter
from activities.tracing.spans import carried
from tenon.apis import labels
from tenon.apis.nodeclaim import INSTANCE_TERMINATING
from tenon.apis.reasons import Reason, snake_case
from tenon.evolve import evolve
from tenon.kube.claim_record import ClaimRecord, instance_id_of
from tenon.kube.scheduler_config import NOTHING, DefaultSpread
from tenon.messages.base import ActivityName, ClaimRef
from tenon.messages.launch import LaunchInput, LaunchResult, PrepareLaunchInput, PrepareLaunchResult
from tenon.messages.node_steps import (
    BindResult,
    CordonInput,
    CordonResult,
    DetachInput,
    DetachResult,
    DrainInput,
    DrainResult,
    ExpirationInput,
    ExpirationResult,
    InitializeInput,
    InitializeResult,
    KeepInput,
    NodeInput,
    RegisterResult,
    ReleaseInput,
    ReleaseResult,
    TerminateInput,
    TerminateResult,
)
from tenon.node.cordon import drain_reason
from tenon.node.steps import KeepRecorded, Withdrawn

log = loggers.NODECLAIM_LIFECYCLE

SCHEDULER_SECONDS = 2.0
"""How long kube-scheduler has to place pods on a node that has just become ready, before Tenon binds any; and to count
the bound pods, after a watch has shown them. If both place pods at the same time, the node may get more than it can
run, and its kubelet rejects the excess."""
TERMINATION_WAIT_SECONDS = 120.0
"""Seconds that one attempt waits for EC2 to terminate an instance."""
TAGGING_THREADS = 40
"""Threads for tagging instances. EC2's rate limit makes tagging slow, and it must not block other calls. There are as
many as the burst of CreateTags calls, so that nodes that join together share the call that reads their tags."""


class NodeActivities:
    """Each stage of a node as its own activity."""

    def __init__(
        self,
        kube: Kube,
        recorder: EventPublisher,
        ec2: Ec2Provider,
        initialization_timeout: timedelta | None = None,
        default_spread: DefaultSpread = NOTHING,
        breakers: LaunchBreakers | None = None,
        record: RecordWriter = NO_RECORD,
        namespace: str = "tenon",
    ) -> None:
        """``namespace`` is that of Tenon, where the versions of NodePools are recorded."""
        self._kube = kube
        self._recorder = recorder
        self._ec2 = ec2
        self._default_spread = default_spread
        self._memory = LearnedMemory(kube)
        self._idle = IdleReplacements(kube, ec2, utc_now)
        self._terminations = Terminations(ec2)
        self._tagging_threads = ThreadPoolExecutor(TAGGING_THREADS, thread_name_prefix="tagging")
        self._taggings: set[asyncio.Task[None]] = set()
        """Holds references, because an event loop has only weak ones."""
        self._breakers = breakers or LaunchBreakers(utc_now)
        self._launching = Launching(
            kube, recorder, ec2, utc_now, initialization_timeout, self._breakers, record=record, namespace=namespace
        )
        self._consoles = Consoles(ec2)
        self._boots = BootFailures(kube, recorder, ec2, self._breakers, utc_now)

    @activity.defn(name=ActivityName.PREPARE_LAUNCH)
    async def prepare_launch(self, prepare_input: PrepareLaunchInput) -> PrepareLaunchResult:
        """Choose instance types, subnets and templates. Temporal records the result before anything is bought."""
        return await self._launching.prepare(prepare_input)

    @activity.defn(name=ActivityName.LAUNCH)
    async def launch(self, launch_input: LaunchInput) -> LaunchResult:
        """Launch the instance with one CreateFleet call that uses the recorded client token."""
        return await finished(self._launching.launch(launch_input))

    @activity.defn(name=ActivityName.REGISTER)
    async def register(self, node_input: NodeInput) -> RegisterResult:
        """Adopt the Node that joined the cluster, and tag its instance with the Node's name."""
        return await registration.register(
            self._kube,
            self._recorder,
            node_input,
            utc_now,
            self._partition,
            partial(self._registered, node_input),
            self._consoles.explain,
        )

    def _registered(self, node_input: NodeInput, claim: ClaimRecord, node_name: str) -> None:
        kinds = claim.image_and_type | {claim.labels.get(labels.ZONE, "")}
        self._breakers.registered(claim.class_key, kinds, claim.launched_at)
        metrics.NODES_CREATED.labels(claim.labels.get(labels.NODEPOOL, ""), claim.labels.get(labels.ZONE, "")).inc()
        tagging = asyncio.create_task(self._tag_instance(node_input, node_name, claim))
        self._taggings.add(tagging)
        tagging.add_done_callback(self._taggings.discard)  # EC2's rate limits must not delay the node
        log.info("A NodeClaim registered", extra={"nodeclaim": node_input.claim.name, "node": node_name})

    async def _partition(self, claim: ClaimRecord) -> Mapping[str, str]:
        """The label of the partition that EC2 chose, if EC2 showed the instance too late for the launch (AWS-112)."""
        if not claim.labels.get(labels.PLACEMENT_GROUP_ID) or claim.labels.get(labels.PLACEMENT_GROUP_PARTITION):
            return {}
        try:
            instance = await asyncio.to_thread(self._ec2.describe_instance, claim.instance_id)
        except EC2Error as error:
            if error.retryable:
                raise  # the step is repeated: this is the only time when the label is read
            log.warning(
                "The worker failed to read the partition of an instance, and its node lacks the label",
                extra={"nodeclaim": claim.name, "instance": claim.instance_id, "error": str(error)},
            )
            return {}
        partition = instance.partition if instance is not None else 0
        return {labels.PLACEMENT_GROUP_PARTITION: str(partition)} if partition else {}

    async def _tag_instance(self, node_input: NodeInput, node_name: str, claim: ClaimRecord) -> None:
        """Tag the instance with its claim and Node name. If that fails, the sweep does it later.

        A claim of a launch group then says so in its annotations, because its instance had no tag that names it before.
        """
        instance_id = instance_id_of(node_input.provider_id)
        tag = partial(self._ec2.name_instance, instance_id, node_input.claim.name, node_name)
        try:
            tagged = await asyncio.get_running_loop().run_in_executor(self._tagging_threads, carried(tag))
            if tagged and in_group(claim):
                await nodeclaims.annotate_claim(self._kube, node_input.claim, nodeclaims.TAGGED, claim.body)
        except (EC2Error, ApiError) as error:
            log.info(
                "The worker failed to tag an instance; the next sweep tags it",
                extra={"instance": instance_id, "error": str(error)},
            )

    @activity.defn(name=ActivityName.INITIALIZE)
    async def initialize(self, initialize_input: InitializeInput) -> InitializeResult:
        """Check that the Node can run the pods it was bought for, and bind them if the input says so."""
        outcome = await initialization.initialized_node(self._kube, initialize_input, utc_now, self._memory.learn)
        if isinstance(outcome, InitializeResult):
            return outcome
        result = InitializeResult(initialized=True)
        extra = {"nodeclaim": initialize_input.claim.name, "node": initialize_input.node_name}
        log.info("A NodeClaim initialized", extra=extra)
        if not initialize_input.binds:
            return result
        try:
            return evolve(result, binding=await self._bind(initialize_input, outcome))
        except ApiError as error:  # the step "bind pods" retries it, and says what blocks it
            log.info("The worker failed to bind pods and retries", extra={**extra, "error": str(error)})
            return result

    @activity.defn(name=ActivityName.BIND)
    async def bind(self, node_input: NodeInput) -> BindResult:
        """Bind the pods that the node was bought for, except those that kube-scheduler has already placed."""
        return await self._bind(node_input)

    async def _bind(
        self, node_input: NodeInput, initialized: initialization.InitializedNode | None = None
    ) -> BindResult:
        result = await binding.bind(
            self._kube, node_input, lambda: asyncio.sleep(SCHEDULER_SECONDS), self._default_spread, initialized
        )
        log.info(
            "The worker bound pods",
            extra={
                "nodeclaim": node_input.claim.name,
                "node": node_input.node_name,
                "bound": result.bound,
                "planned": result.planned,
                "for-scheduler": result.for_scheduler,
            },
        )
        return result

    @activity.defn(name=ActivityName.KEEP)
    async def keep(self, keep_input: KeepInput) -> KeepRecorded:
        """Record on the claim until when an operator wants to keep the node."""
        await nodeclaims.record_keep(self._kube, keep_input.claim, keep_input.until)
        return KeepRecorded()

    @activity.defn(name=ActivityName.WITHDRAW)
    async def withdraw(self, node_input: NodeInput) -> Withdrawn:
        """Remove the disruption taint from a node that stays after all."""
        removed = await cordon.withdraw(self._kube, node_input.claim, node_input.node_name)
        if removed:
            log.info(
                "The worker removed the disruption taint from a node",
                extra={"nodeclaim": node_input.claim.name, "node": node_input.node_name},
            )
        return Withdrawn(removed=removed)

    @activity.defn(name=ActivityName.CHECK_EXPIRATION)
    async def check_expiration(self, expiration_input: ExpirationInput) -> ExpirationResult:
        """Read whether a freeze, or the budgets of the NodePool, make an expired node wait."""
        return await nodepools.may_expire(self._kube, expiration_input, utc_now())

    @activity.defn(name=ActivityName.CORDON)
    async def cordon(self, cordon_input: CordonInput) -> CordonResult:
        """Taint the node so that no new pods are scheduled on it, and delete its Node and NodeClaim objects."""
        with requests_as(RequestClass.LEAVE):
            result = await cordon.cordon(self._kube, self._recorder, cordon_input, utc_now)
            if result.cordoned and result.node_exists and not result.pods and cordon_input.drain is not None:
                result = evolve(result, drained=await self._drain_at_once(cordon_input.drain, result))
        extra = {"nodeclaim": cordon_input.claim.name, "node": result.node_name, "reason": cordon_input.removal.reason}
        if result.cordoned:
            log.info("A node was cordoned", extra=extra)
        else:
            why = {"pod-count": result.pods, "protected-by": result.protection}
            log.info("The node is no longer empty, or an annotation protects it, and it stays", extra={**extra, **why})
        return result

    async def _drain_at_once(self, drain_input: DrainInput, cordoned: CordonResult) -> DrainResult | None:
        """Drain a node that had no pods to evict when it was cordoned. None if that failed: the drain has the retries.

        A pod may have come meanwhile, which the result says.
        """
        now_input = evolve(drain_input, node_name=cordoned.node_name, force_at=cordoned.force_at, budget_seconds=0.0)
        try:
            return await self._drain(now_input)
        except ApiError as error:
            extra = {"nodeclaim": drain_input.claim.name, "node": cordoned.node_name, "error": str(error)}
            log.info("The worker failed to drain a node at once and retries", extra=extra)
            return None

    @activity.defn(name=ActivityName.DRAIN)
    async def drain(self, drain_input: DrainInput) -> DrainResult:
        """Evict the pods in waves."""
        with requests_as(RequestClass.EVICT):
            return await with_heartbeat(self._drain(drain_input))

    async def _drain(self, drain_input: DrainInput) -> DrainResult:
        result = await drain.drain(self._kube, self._recorder, drain_input, utc_now, idle_nodes=self._idle.sentence)
        metrics.PODS_DRAINED.labels(drain_reason(drain_input.reason)).inc(result.evicted)
        if result.drained:
            metrics.NODES_DRAINED.labels(drain_input.pool).inc()
            log.info("A node drained", extra={"nodeclaim": drain_input.claim.name, "node": drain_input.node_name})
        return result

    @activity.defn(name=ActivityName.DETACH_VOLUMES)
    async def detach_volumes(self, detach_input: DetachInput) -> DetachResult:
        """Wait until the volumes of drained pods are detached."""
        with requests_as(RequestClass.LEAVE):
            detaching = volumes.detach_volumes(self._kube, self._recorder, detach_input, utc_now)
            return await with_heartbeat(detaching)

    @activity.defn(name=ActivityName.TERMINATE)
    async def terminate(self, terminate_input: TerminateInput) -> TerminateResult:
        """Terminate the instance and wait until EC2 reports that it is gone. Then release, if the input says so."""
        with requests_as(RequestClass.LEAVE):
            result = await with_heartbeat(self._terminate(terminate_input))
            if not result.terminated or terminate_input.release is None:
                return result
            try:
                return evolve(result, released=await with_heartbeat(self._release(terminate_input.release)))
            except ApiError as error:  # the step "release node" retries it, and says what blocks it
                extra = {"nodeclaim": terminate_input.claim.name, "error": str(error)}
                log.info("The worker failed to release a node and retries", extra=extra)
                return result

    async def _terminate(self, terminate_input: TerminateInput) -> TerminateResult:
        claim = None if terminate_input.instance_id else await nodeclaims.read_claim(self._kube, terminate_input.claim)
        # A workflow that was asked to leave early may not know its instance, and the instance's tags may appear late.
        instance_id = terminate_input.instance_id or (claim.instance_id if claim is not None else "")
        if not instance_id:
            instance = await living_instance(self._ec2, terminate_input.claim.name, claim, utc_now())
            if instance is None:
                settled = terminate_input.search_until is None or utc_now() >= terminate_input.search_until
                return TerminateResult(
                    terminated=settled, state="" if settled else "not found yet, and EC2 may show it later"
                )
            instance_id = instance.id
        read_claim = await self._boots.look(terminate_input.claim, instance_id)
        mark = _TerminatingMark(self._kube, terminate_input.claim, read_claim)
        try:
            state = await self._terminations.terminate(instance_id, TERMINATION_WAIT_SECONDS, mark.write)
        except EC2Error:
            metrics.TERMINATION_FAILURES.labels(terminate_input.zone, "").inc()
            raise
        if state is None and await self._may_not_be_shown_yet(terminate_input):
            return TerminateResult(state="not visible in EC2 yet")
        if state in (None, TERMINATED):
            marked = await mark.write()
            log.info("An instance terminated", extra={"nodeclaim": terminate_input.claim.name, "instance": instance_id})
            return TerminateResult(
                terminated=True,
                state=state or "gone",
                asked_at=marked.true_since(INSTANCE_TERMINATING) if marked is not None else None,
                stopped=marked.annotations.get(labels.STOPPED_TIMES, "") if marked is not None else "",
            )
        return TerminateResult(state=state)

    async def _may_not_be_shown_yet(self, terminate_input: TerminateInput) -> bool:
        """Whether EC2 may not show the instance yet because it was launched only moments ago."""
        if terminate_input.shown:
            return False
        claim = await nodeclaims.read_claim(self._kube, terminate_input.claim)
        return claim is not None and launched_recently(claim, utc_now())

    @activity.defn(name=ActivityName.RELEASE)
    async def release(self, release_input: ReleaseInput) -> ReleaseResult:
        """Remove the finalizers from Node and NodeClaim, as the last step."""
        with requests_as(RequestClass.LEAVE):
            return await self._release(release_input)

    async def _release(self, release_input: ReleaseInput) -> ReleaseResult:
        claim = await nodeclaims.read_claim(self._kube, release_input.claim)
        released = await release.release(self._kube, release_input, self._recorder, claim)
        _count_end(
            release_input,
            await nodepools.consolidation_policy(self._kube, release_input.pool, release_input.reason),
            claim.termination_mode if claim is not None else "graceful",
            claim.true_since(INSTANCE_TERMINATING) if claim is not None else None,
        )
        log.info(
            "A node was deleted",
            extra={
                "nodeclaim": release_input.claim.name,
                "node": release_input.node_name,
                "reason": release_input.reason,
            },
        )
        return released

    def all(self) -> Sequence[Callable[..., Any]]:
        """All activities."""
        return [
            self.prepare_launch,
            self.launch,
            self.register,
            self.initialize,
            self.bind,
            self.keep,
            self.withdraw,
            self.check_expiration,
            self.cordon,
            self.drain,
            self.detach_volumes,
            self.terminate,
            self.release,
        ]


class _TerminatingMark:
    """The condition InstanceTerminating of a NodeClaim.

    EC2 may refuse for hours to terminate an instance. Its node uses up budgets and costs money until then, so the
    condition waits until EC2 has accepted, or does not know the instance.
    """

    def __init__(self, kube: Kube, ref: ClaimRef, claim: ClaimRecord | None) -> None:
        """``claim`` is the NodeClaim as it was just read, which saves a read."""
        self._kube = kube
        self._ref = ref
        self._read_object = claim.body if claim is not None else None
        self._written: ClaimRecord | None = None

    async def write(self) -> ClaimRecord | None:
        """Write the condition, unless it was written. Return the claim with it, or None if the claim is gone."""
        if self._written is None:
            self._written = await nodeclaims.mark_instance_terminating(
                self._kube, self._ref, utc_now, self._read_object
            )
        return self._written


def _count_end(release_input: ReleaseInput, policy: str, mode: str, terminating_since: datetime | None) -> None:
    ended = utc_now()
    if terminating_since is not None:
        metrics.INSTANCE_TERMINATION_SECONDS.labels(release_input.pool).observe(
            (ended - terminating_since).total_seconds()
        )
    metrics.CLAIMS_TERMINATED.labels(release_input.pool, release_input.capacity_type, release_input.zone).inc()
    reason = Reason.of(release_input.reason)
    if release_input.reason and not release_input.already_deleted and not (reason and reason.is_by_hand):
        metrics.CLAIMS_DISRUPTED.labels(
            snake_case(release_input.reason), release_input.pool, release_input.capacity_type, policy, mode
        ).inc()
    if release_input.node_name:
        metrics.NODES_TERMINATED.labels(release_input.pool, release_input.zone).inc()
    if release_input.deletion_started_at is not None:
        took = (ended - release_input.deletion_started_at).total_seconds()
        metrics.CLAIM_TERMINATION_SECONDS.labels(release_input.pool).observe(took)
    if release_input.created_at is not None:
        metrics.NODE_LIFETIME_SECONDS.labels(release_input.pool).observe(
            (ended - release_input.created_at).total_seconds()
        )
