"""The steps "prepare launch" and "launch": build the request to EC2, send it, and record the outcome on the claim."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import datetime, timedelta
from functools import partial

from temporalio.exceptions import ApplicationError

from activities import loggers, metrics
from activities.ec2 import last_check
from activities.ec2.errors import (
    EC2Error,
    InsufficientCapacityError,
    NodeClassNotReadyError,
    NodeClassReadinessUnknownError,
)
from activities.ec2.provider import Ec2Provider
from activities.heartbeat import with_heartbeat
from activities.kubernetes import nodeclaims
from activities.kubernetes.client import Kube
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.resources import EC2NODECLASSES
from activities.kubernetes.shared_read import SharedRead
from activities.node import cordon
from activities.node.launch_breakers import LaunchBreakers
from activities.node.launch_failure import LaunchRetry
from activities.node.launch_groups import READ_FOR, LaunchGroups, in_group, living_instance
from activities.node.launch_record import LaunchRecord
from activities.node.launch_versions import LaunchVersions
from activities.node.lost_instances import LostInstances, Search
from activities.node.overlays import OverlaidTypes
from activities.node.startup_cordon import remove_startup_cordon_by_name
from activities.node.surplus_instance import terminate_surplus
from activities.node.throttled_launches import PREPARING, SENDING, ThrottledLaunches
from activities.record.writer import NO_RECORD, RecordWriter
from activities.tracing.spans import carried
from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.hashing import EC2NODECLASS_VERSION, ec2nodeclass_hashes
from tenon.apis.nodeclaim import NodeClaim
from tenon.apis.reasons import Reason
from tenon.apis.shortage_price import price_factor, shortage_annotation
from tenon.apis.validation import parse
from tenon.ec2.families.own_kubelet import with_own_kubelet
from tenon.ec2.launch.launched_labels import launched_labels
from tenon.ec2.launch.network_annotations import network_annotations
from tenon.ec2.refusals import errors as codes
from tenon.ec2.refusals.class_faults import ClassFault
from tenon.ec2.refusals.refused_price import cheapest_refused
from tenon.evolve import evolve
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.event_reasons import EventReason
from tenon.kube.offerings import OfferingKey
from tenon.messages.base import ClaimRef, ErrorType
from tenon.messages.launch import (
    ClaimView,
    FleetOverride,
    Instance,
    LaunchInput,
    LaunchRequest,
    LaunchResult,
    LaunchWait,
    PrepareLaunchInput,
    PrepareLaunchResult,
)
from tenon.node.launch_stages import LAUNCH_ATTEMPTS

log = loggers.NODECLAIM_LIFECYCLE

TEMPLATE_NOT_FOUND = "LaunchTemplateNotFound"
CLASS_APPEARS_WITHIN = timedelta(seconds=10)
"""The age of a NodeClaim up to which its EC2NodeClass may be missing, because both were applied at the same time."""
CLASS_UNKNOWN = "NodeClassReadinessUnknown"
SUBNET_FULL = codes.reason_for(codes.SUBNET_FULL)
"""The launch is retried in another subnet. It says nothing about the next launch of the NodePool."""
SPOT_ROLE_MISSING = codes.reason_for(codes.SPOT_ROLE_MISSING)
CREATE_SPOT_ROLE = "run aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"
RESUMED_AFTER = timedelta(seconds=15)
"""If a claim is older than this when its workflow starts, an earlier workflow may have launched it already."""
GROUP_LEFT = "EC2 refused the launch group, or one of its NodeClaims left: the others launch alone"
REFUSED_MEANWHILE = "EC2 refused all its offerings to other NodeClaims while its launch waited"
CHECK_WITHIN = 30.0
"""Seconds for the last check of the NodeClaims of a launch, whose thread waits for it."""
SENDERS = 64
"""Threads for launches. They may wait long within EC2's rate limits and must not block the threads of other calls."""


class Launching:
    """Prepares and sends launches."""

    def __init__(
        self,
        kube: Kube,
        recorder: EventPublisher,
        ec2: Ec2Provider,
        now: Callable[[], datetime],
        initialization_timeout: timedelta | None = None,
        breakers: LaunchBreakers | None = None,
        tries: Callable[[], int] | None = None,
        record: RecordWriter = NO_RECORD,
        namespace: str = "tenon",
    ) -> None:
        """Create it.

        Args:
            tries: returns the number of the current attempt of the activity, starting at 1.
            namespace: that of Tenon, where the versions of NodePools are recorded.
        """
        self._kube = kube
        self._recorder = recorder
        self._record = LaunchRecord(record, now)
        self._ec2 = ec2
        self._groups = LaunchGroups(kube, now)
        self._lost = LostInstances(kube, recorder, ec2, now)
        self._throttled = ThrottledLaunches(kube, ec2, now)
        self._senders = ThreadPoolExecutor(SENDERS, thread_name_prefix="launch")
        self._types = OverlaidTypes(kube, ec2)
        self._classes = SharedRead(lambda name: kube.get(EC2NODECLASSES, name), partial(parse, EC2NodeClass))
        self._versions = LaunchVersions(kube, namespace)
        self._now = now
        self._initialization_seconds = initialization_timeout.total_seconds() if initialization_timeout else None
        self._breakers = breakers or LaunchBreakers(now)
        self._putting_off = LaunchRetry(kube, recorder, self._breakers, now, tries)

    async def prepare(self, prepare_input: PrepareLaunchInput) -> PrepareLaunchResult:
        """Return what the claim asks for and, unless it was launched before, the exact request of this attempt."""
        claim = await nodeclaims.read_claim(self._kube, prepare_input.claim)
        if claim is None:
            return PrepareLaunchResult(view=ClaimView())
        view = evolve(nodeclaims.view_of(claim), initialization_timeout_seconds=self._initialization_seconds)
        waits_for_launch = not claim.deleting and not claim.provider_id
        if waits_for_launch and (
            breaker := await self._breakers.admit(
                view.pool, prepare_input.claim.name, claim.instance_types, node_class=claim.class_key
            )
        ):
            return await self._putting_off.unprepared(
                claim, prepare_input.claim, view, self._putting_off.breaker_wait(breaker)
            )
        request: LaunchRequest | None = None
        try:
            result = await self._prepare(prepare_input, claim, view)
            request = result.request
            self._record.prepared(prepare_input.claim, claim, result, prepare_input.attempt)
            return result
        finally:
            if request is None:
                self._breakers.leave(prepare_input.claim.name)

    async def _prepare(
        self, prepare_input: PrepareLaunchInput, claim: ClaimRecord, view: ClaimView
    ) -> PrepareLaunchResult:
        began = prepare_input.began_at or self._now()
        attempt = max(prepare_input.attempt, claim.launch_attempt)
        give_up = partial(self._putting_off.given_up, claim, prepare_input.claim, view)
        try:
            earlier = await self._launched_before(claim, prepare_input.claim, began, sent_before=attempt > 1)
        except NodeClassNotReadyError as error:
            return await give_up(Reason.NODECLASS_NOT_READY, str(error))
        except NodeClassReadinessUnknownError as error:
            wait = LaunchWait(
                reason=CLASS_UNKNOWN, message=f"{error}, so the launch of its instance cannot be recorded"
            )
            return await self._putting_off.unprepared(claim, prepare_input.claim, view, wait)
        instance = earlier.instance
        if earlier.waits is not None:
            return PrepareLaunchResult(
                view=view, reason=earlier.waits.reason, message=earlier.waits.message, waits=earlier.waits
            )
        if earlier.lost and not view.deleting:
            return await give_up(Reason.INSTANCE_GONE, earlier.lost)
        if instance is not None:
            await self._tag(prepare_input.claim, instance, view.node_name)
            # An earlier workflow may have been terminated between tainting the node and deleting the claim.
            if await cordon.withdraw(self._kube, prepare_input.claim, view.node_name):
                log.info(
                    "The worker removed the disruption taint from a node",
                    extra={"nodeclaim": prepare_input.claim.name, "node": view.node_name},
                )
            # An earlier workflow may also have been terminated before it bound the pods.
            if view.initialized and await remove_startup_cordon_by_name(self._kube, view.node_name):
                log.info(
                    "The worker removed a startup cordon",
                    extra={"nodeclaim": prepare_input.claim.name, "node": view.node_name},
                )
            return PrepareLaunchResult(view=evolve(view, instance=instance))
        if view.deleting:
            return PrepareLaunchResult(view=view)
        if not await nodeclaims.ensure_claim_finalizer(self._kube, prepare_input.claim, read_object=claim.body):
            return PrepareLaunchResult(view=ClaimView())
        try:
            nodeclaim, faults = parse(NodeClaim, claim.body)
            if nodeclaim is None or faults:
                raise ValueError("the NodeClaim cannot be read: " + "; ".join(str(fault) for fault in faults))
            node_class = await self._node_class(claim, launching=True)
            own = with_own_kubelet(node_class, claim.annotations)
            async with self._throttled.shown(prepare_input.claim, PREPARING):
                types = await with_heartbeat(self._types.of(claim, own))
                unavailable = self._breakers.unavailable_to(claim)
                prepare = carried(partial(self._ec2.prepare_launch, nodeclaim, own, attempt, unavailable, types))
                request = await with_heartbeat(asyncio.get_running_loop().run_in_executor(self._senders, prepare))
        except NodeClassNotReadyError as error:
            return await give_up(Reason.NODECLASS_NOT_READY, str(error))
        except InsufficientCapacityError as error:
            self._breakers.mark_unavailable(error.unavailable)
            self._breakers.news.set()  # the planner asked for this, so it does not know what is unavailable
            return await give_up(Reason.INSUFFICIENT_CAPACITY, str(error))
        except NodeClassReadinessUnknownError as error:
            return await self._putting_off.unprepared(
                claim, prepare_input.claim, view, LaunchWait(reason=CLASS_UNKNOWN, message=str(error))
            )
        except ValueError as error:
            wait = LaunchWait(reason=nodeclaims.LAUNCH_FAILED, message=str(error))
            self._breakers.refused(view.pool, wait.reason, wait.message)
            return await self._putting_off.unprepared(claim, prepare_input.claim, view, wait)
        except EC2Error as error:
            wait = await self._putting_off.failed(prepare_input.claim, claim, error)
            return await self._putting_off.unprepared(claim, prepare_input.claim, view, wait)
        group = await with_heartbeat(self._groups.wait_complete(claim)) if attempt == 1 else None
        if attempt > 1 or (group is None and in_group(claim)):
            await self._record_attempt(prepare_input.claim, attempt)
        request = evolve(request, made_from=self._origin(node_class), group=group)
        return PrepareLaunchResult(view=view, request=request, attempt=attempt)

    async def _record_attempt(self, ref: ClaimRef, attempt: int) -> None:
        """Record on the claim that it launches again, or apart from its launch group.

        A workflow that starts again then does not repeat a token that EC2 knows, and other processes do not send the
        request of the group.
        """
        await nodeclaims.annotate_claim(self._kube, ref, {labels.LAUNCH_ATTEMPT: str(attempt)})

    async def launch(self, launch_input: LaunchInput) -> LaunchResult:
        """Send the recorded request and write the outcome on the claim. Safe to repeat.

        Raises:
            ApplicationError: of type NodeClaimGone: the claim is gone, but an earlier request may have bought an
                instance.
        """
        try:
            return await self._launch(launch_input)
        finally:
            self._breakers.leave(launch_input.claim.name)

    async def _launch(self, launch_input: LaunchInput) -> LaunchResult:
        claim = await nodeclaims.read_claim(self._kube, launch_input.claim)
        if claim is None:
            raise ApplicationError(
                f"NodeClaim {launch_input.claim.name} is gone: nothing is bought for it", type=ErrorType.CLAIM_GONE
            )
        if claim.provider_id:
            # The workflow was reset to a point before its launch. EC2 forgets client tokens in time, so ask the claim.
            earlier = await self._lost.search(claim)
            reason = Reason.INSTANCE_GONE if earlier.lost else ""
            return LaunchResult(instance=earlier.instance, reason=reason, message=earlier.lost, waits=earlier.waits)
        if await self._group_is_left(launch_input, claim):
            return await self._putting_off.unlaunched(claim, launch_input.claim, _not_sent(GROUP_LEFT))
        type_names = sorted(_instance_types(launch_input.request))
        if breaker := await self._breakers.admit(
            claim.pool, launch_input.claim.name, type_names, node_class=claim.class_key, sends=True
        ):
            return await self._putting_off.unlaunched(
                claim, launch_input.claim, LaunchResult(waits=self._putting_off.breaker_wait(breaker))
            )
        if self._was_refused_meanwhile(launch_input):
            result = LaunchResult(reason=Reason.INSUFFICIENT_CAPACITY, message=REFUSED_MEANWHILE)
            self._record.refused(launch_input.claim, claim, result.reason, result.message, attempt=launch_input.attempt)
            return await self._putting_off.unlaunched(claim, launch_input.claim, result)
        result = await self._send(launch_input, claim)
        refused, result = result.unavailable, evolve(result, unavailable=[])
        if result.instance is None and result.reason == TEMPLATE_NOT_FOUND and launch_input.attempt < LAUNCH_ATTEMPTS:
            # The next attempt creates the template again.
            return evolve(result, reason=Reason.TEMPLATE_GONE)
        if result.instance is None:
            result = await self._putting_off.unlaunched(claim, launch_input.claim, result)
            if (
                result.waits is not None
                and launch_input.attempt
                and not (result.waits.unsettled or launch_input.unsettled)
            ):
                await self._record_attempt(launch_input.claim, launch_input.attempt + 1)
            return result
        cheaper = cheapest_refused(launch_input.request, refused, result.instance)
        in_shortage = _shortage_annotation(claim, result.instance, cheaper)
        try:
            await self._mark(launch_input.claim, result.instance, claim, launch_input.request.made_from, in_shortage)
        except nodeclaims.AnotherInstanceError as error:
            await terminate_surplus(self._ec2, self._recorder, claim, result.instance.id, error.provider_id)
            raise  # the next attempt continues with the instance that the claim has
        instance = result.instance
        self._record.launched(launch_input.claim, claim, instance, launch_input.request, launch_input.attempt)
        if in_shortage and cheaper is not None:
            await self._recorder.publish(claim.body, EventReason.BOUGHT_IN_SHORTAGE, _dearer(instance, cheaper))
        log.info(
            "A NodeClaim launched",
            extra={
                "nodeclaim": launch_input.claim.name,
                "instance": instance.id,
                "provider-id": instance.provider_id,
                "instance-type": instance.instance_type,
                "zone": instance.zone,
                "capacity-type": instance.capacity_type,
                "price": instance.price,
                "hostname": instance.private_dns_name,
            },
        )
        return result

    def _was_refused_meanwhile(self, launch_input: LaunchInput) -> bool:
        """Whether EC2 has refused everything that a request names since it was prepared, so that it need not be sent.

        A launch may have waited for the outcome of others. A request that was sent before, perhaps by another member
        of its launch group, may have bought an instance, so it is always sent again.
        """
        request = launch_input.request
        sent_before = launch_input.unsettled or not self._putting_off.is_first_try or request.group is not None
        unavailable = self._breakers.unavailable()
        if sent_before or not unavailable:
            return False
        rows = [row for template in request.templates for row in template.overrides]
        return bool(rows) and all(
            OfferingKey.refusable(
                request.capacity_type, row.instance_type, row.zone, row.reservation_id, request.placement_group
            )
            in unavailable
            for row in rows
        )

    async def _send(self, launch_input: LaunchInput, claim: ClaimRecord) -> LaunchResult:
        """Send the request and record what EC2 refuses, for other claims and for the provisioner workflow."""
        pool, instance_types = claim.pool, _instance_types(launch_input.request)
        loop, read_at = asyncio.get_running_loop(), self._now()
        context = copy_context()  # that of the activity, which says how often it was tried

        def check() -> None:
            coroutine = self._check_still_wanted(launch_input, claim, read_at)
            context.run(asyncio.run_coroutine_threadsafe, coroutine, loop).result(CHECK_WITHIN)

        def send() -> LaunchResult:
            with last_check.checking(check):
                return self._ec2.launch(launch_input.request)

        try:
            async with self._throttled.shown(launch_input.claim, SENDING):
                result = await with_heartbeat(loop.run_in_executor(self._senders, carried(send)))
        except last_check.NotWantedError as error:
            return _not_sent(str(error))
        except EC2Error as error:
            wait = await self._putting_off.failed(launch_input.claim, claim, error)
            self._record.refused(launch_input.claim, claim, wait.reason, wait.message, attempt=launch_input.attempt)
            return LaunchResult(waits=wait)
        for refused in result.unavailable:
            if refused.capacity_type != launch_input.request.capacity_type:
                continue  # a full placement group is full for the other capacity types as well
            no_capacity = Reason.INSUFFICIENT_CAPACITY.camel_case
            metrics.LAUNCH_FAILURES.labels(refused.zone, "", refused.capacity_type, no_capacity).inc()
        self._breakers.mark_unavailable(result.unavailable)
        if launch_input.request.group is not None and result.instance is not None:
            self._groups.accepted(launch_input.request.group)
        if result.waits is not None and result.waits.new_token:
            return result  # EC2 has refused nothing
        if launch_input.request.group is not None and result.waits is not None and result.waits.has_answer:
            self._groups.leave(launch_input.request.group)
        if result.reason == SPOT_ROLE_MISSING:
            await self._recorder.publish(
                claim.body, EventReason.SPOT_ROLE_MISSING, f"{result.message}: {CREATE_SPOT_ROLE}"
            )
        lacks_capacity = result.instance is None and result.waits is None
        if result.instance is not None or lacks_capacity or result.reason == SUBNET_FULL:
            self._breakers.launched(pool, instance_types, node_class=claim.class_key)
        elif result.waits is not None and result.waits.has_answer and result.reason != TEMPLATE_NOT_FOUND:
            metrics.LAUNCH_FAILURES.labels("", "", launch_input.request.capacity_type, result.reason).inc()
            fault = result.waits.class_fault
            types = frozenset() if fault == ClassFault.WHOLE else instance_types
            node_class = claim.class_key if fault else ""
            self._breakers.refused(pool, result.reason, result.message, types, node_class=node_class)
        reason = Reason.INSUFFICIENT_CAPACITY if lacks_capacity else result.reason
        if result.unavailable or result.instance is None:
            why = reason or Reason.INSUFFICIENT_CAPACITY
            self._record.refused(
                launch_input.claim, claim, why, result.message, result.unavailable, launch_input.attempt
            )
        return evolve(result, reason=reason)

    async def _check_still_wanted(self, launch_input: LaunchInput, claim: ClaimRecord, read_at: datetime) -> None:
        """Check that the launch, whose turn has come, is still for NodeClaims that want an instance.

        Raises:
            NotWantedError: the request would buy an instance for a NodeClaim that left.
        """
        if await self._group_is_left(launch_input, claim):
            raise last_check.NotWantedError(GROUP_LEFT)
        sent_before = launch_input.unsettled or not self._putting_off.is_first_try
        if launch_input.request.group is not None or sent_before or self._now() - read_at <= READ_FOR:
            return  # a repeated request finds what it bought, and the claim was read a moment ago
        now = await nodeclaims.read_claim(self._kube, launch_input.claim)
        if now is None or now.deleting:
            raise last_check.NotWantedError("the NodeClaim was deleted before its launch was sent")

    async def _group_is_left(self, launch_input: LaunchInput, claim: ClaimRecord) -> bool:
        group = launch_input.request.group
        return group is not None and await self._groups.is_left(claim, group, unsettled=launch_input.unsettled)

    async def _launched_before(
        self, claim: ClaimRecord, ref: ClaimRef, began: datetime, *, sent_before: bool = False
    ) -> Search:
        """Find the instance of an earlier launch, which another workflow may have made if this one began late."""
        if claim.provider_id:
            return await self._lost.search(claim)
        created = claim.created_at
        young = created is None or began - created < RESUMED_AFTER
        if young and not sent_before:
            return Search()
        instance = await with_heartbeat(living_instance(self._ec2, ref.name, claim))
        if instance is not None and not claim.deleting:
            await self._mark(ref, instance, claim)
            self._record.launched(ref, claim, instance)
        return Search(instance=instance)

    async def _node_class(self, claim: ClaimRecord, *, launching: bool = False) -> EC2NodeClass:
        """The EC2NodeClass of a claim, in the claim's version. ``launching``: nothing was launched for it yet.

        Raises:
            NodeClassReadinessUnknownError: it does not exist, or not yet, or its version is not recorded.
            NodeClassNotReadyError: it does not exist, and the claim has waited for it long enough.
        """
        name = claim.node_class
        read = await self._classes.get(name)
        if read is None:
            created = claim.created_at if launching else None
            if created is not None and self._now() - created > CLASS_APPEARS_WITHIN:
                raise NodeClassNotReadyError(
                    f"EC2NodeClass {name} does not exist: create it, or name another one in spec.nodeClassRef"
                )
            raise NodeClassReadinessUnknownError(f"EC2NodeClass {name} does not exist")
        node_class, faults = read
        if node_class is None:
            raise NodeClassNotReadyError(f"EC2NodeClass {name} cannot be read: " + "; ".join(str(f) for f in faults))
        return await self._versions.of(claim, node_class)

    async def _mark(
        self,
        ref: ClaimRef,
        instance: Instance,
        claim: ClaimRecord,
        made_from: Mapping[str, str] | None = None,
        in_shortage: Mapping[str, str] | None = None,
    ) -> None:
        """Write the launch on the claim.

        Args:
            ref: the claim.
            instance: the instance that was launched.
            claim: the claim as read before the launch. The write reads it again if it has changed since.
            made_from: the hashes of the EC2NodeClass that the request was made from. If None, they are unknown, and the
                current EC2NodeClass is used.
            in_shortage: the annotation of a node that was bought in a capacity shortage.
        """
        node_class = await self._node_class(claim)
        own = with_own_kubelet(node_class, claim.annotations)
        types = await with_heartbeat(self._types.of(claim, own))
        kind = next((kind for kind in types if kind.name == instance.instance_type), None)
        await nodeclaims.mark_launched(
            self._kube,
            ref,
            instance,
            capacity=kind.capacity if kind else {},
            allocatable=kind.allocatable if kind else {},
            labels_=launched_labels(claim.body, instance, kind),
            now=self._now,
            annotations={
                **self._asked_for(made_from, node_class),
                **({} if in_group(claim) else nodeclaims.TAGGED),
                **network_annotations(instance.subnet_id, instance.security_group_ids),
                **({labels.LAUNCH_PRICE: f"{instance.price:.4f}"} if instance.price else {}),
                **(in_shortage or {}),
            },
            read_object=claim.body,
        )

    async def _tag(self, ref: ClaimRef, instance: Instance, node_name: str) -> None:
        """Restore the tags by which the instance is found again. Karpenter may have launched it without them."""
        try:
            name = asyncio.to_thread(self._ec2.name_instance, instance.id, ref.name, node_name)
            tagged = await with_heartbeat(name)
        except EC2Error as error:
            log.info(
                "The worker failed to tag an instance; the next sweep tags it",
                extra={"instance": instance.id, "error": str(error)},
            )
        else:
            network = network_annotations(instance.subnet_id, instance.security_group_ids)
            await nodeclaims.annotate_claim(self._kube, ref, nodeclaims.TAGGED | network if tagged else network)

    def _asked_for(self, made_from: Mapping[str, str] | None, node_class: EC2NodeClass) -> Mapping[str, str]:
        """The hashes of the class that a request was made from.

        If another release computed them, return hashes of the current class: they cannot be compared, and nothing would
        correct them later.
        """
        if made_from and made_from.get(labels.EC2NODECLASS_HASH_VERSION) == EC2NODECLASS_VERSION:
            return made_from
        return self._origin(node_class)

    def _origin(self, node_class: EC2NodeClass) -> dict[str, str]:
        """The annotations of a NodeClaim about the EC2NodeClass that its instance was launched from."""
        profile = node_class.status.instance_profile
        hashes = ec2nodeclass_hashes(node_class, self._ec2.cluster.ca_bundle)
        return {**hashes, **({labels.INSTANCE_PROFILE: profile} if profile else {})}


def _not_sent(why: str) -> LaunchResult:
    """The result of a launch that EC2 was not asked for."""
    return LaunchResult(waits=LaunchWait(reason=nodeclaims.LAUNCH_FAILED, message=why))


def _instance_types(request: LaunchRequest) -> frozenset[str]:
    """The instance types of a request: what EC2 answers to it is about them."""
    return frozenset(row.instance_type for template in request.templates for row in template.overrides)


def _shortage_annotation(claim: ClaimRecord, instance: Instance, cheaper: FleetOverride | None) -> dict[str, str]:
    """The annotation of a node that costs far more than what EC2 refused; empty if the plan has written it already."""
    if cheaper is None or labels.BOUGHT_IN_SHORTAGE in claim.annotations:
        return {}
    return shortage_annotation(instance.price, cheaper.price, price_factor(claim.annotations))


def _dearer(instance: Instance, cheaper: FleetOverride) -> str:
    return (
        f"EC2 refused cheaper instance types, {cheaper.instance_type} at ${cheaper.price:.4f} an hour first, and "
        f"launched {instance.instance_type} at ${instance.price:.4f}; Tenon replaces the node when they are available "
        "again, if its NodePool allows consolidation"
    )
