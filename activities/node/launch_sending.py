"""The step "launch": sends the prepared request to EC2, and records the outcome on the NodeClaim."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from datetime import datetime

from temporalio.exceptions import ApplicationError

from activities import loggers, metrics
from activities.ec2 import last_check
from activities.ec2.errors import EC2Error
from activities.heartbeat import with_heartbeat
from activities.kubernetes import nodeclaims
from activities.node.launch_groups import READ_FOR
from activities.node.launch_parts import LaunchParts
from activities.node.surplus_instance import terminate_surplus
from activities.node.throttled_launches import SENDING
from activities.tracing.spans import carried
from tenon.apis import labels
from tenon.apis.reasons import Reason
from tenon.apis.shortage_price import price_factor, shortage_annotation
from tenon.ec2.refusals import errors as codes
from tenon.ec2.refusals import scopes
from tenon.ec2.refusals.class_faults import ClassFault
from tenon.ec2.refusals.refused_price import cheapest_refused, requested_price
from tenon.evolve import evolve
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.event_reasons import EventReason
from tenon.kube.offerings import OfferingKey
from tenon.messages.base import ErrorType
from tenon.messages.launch import (
    FleetOverride,
    Instance,
    LaunchInput,
    LaunchRequest,
    LaunchResult,
    LaunchWait,
)
from tenon.money import per_hour, price_text
from tenon.node.launch_stages import LAUNCH_ATTEMPTS

log = loggers.NODECLAIM_LIFECYCLE

SUBNET_FULL = codes.reason_for(scopes.SUBNET_FULL)
"""The launch is retried in another subnet. It says nothing about the next launch of the NodePool."""
SPOT_ROLE_MISSING = codes.reason_for(scopes.SPOT_ROLE_MISSING)
CREATE_SPOT_ROLE = "run aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"
GROUP_LEFT = "EC2 refused the launch group, or one of its NodeClaims left: the others launch alone"
DELETED = "the NodeClaim was deleted before its launch was sent"
REFUSED_MEANWHILE = "EC2 refused all its offerings to other NodeClaims while its launch waited"
CHECK_WITHIN = 30.0
"""Seconds for the last check of the NodeClaims of a launch, whose thread waits for it."""


class LaunchSending:
    """Sends launches."""

    def __init__(self, parts: LaunchParts) -> None:
        self._parts = parts

    async def launch(self, launch_input: LaunchInput) -> LaunchResult:
        """Send the recorded request and write the outcome on the claim. Safe to repeat.

        Raises:
            ApplicationError: of type NodeClaimGone: the claim is gone, but an earlier request may have bought an
                instance.
        """
        try:
            return await self._launch(launch_input)
        finally:
            self._parts.breakers.leave(launch_input.claim.name)

    async def _launch(self, launch_input: LaunchInput) -> LaunchResult:
        read_at = self._parts.now()
        claim = await nodeclaims.read_claim(self._parts.kube, launch_input.claim)
        if claim is None:
            raise ApplicationError(
                f"NodeClaim {launch_input.claim.name} is gone: nothing is bought for it", type=ErrorType.CLAIM_GONE
            )
        if claim.provider_id:
            # The workflow was reset to a point before its launch. EC2 forgets client tokens in time, so ask the claim.
            earlier = await self._parts.lost.search(claim)
            reason = Reason.INSTANCE_GONE if earlier.lost else ""
            return LaunchResult(instance=earlier.instance, reason=reason, message=earlier.lost, waits=earlier.waits)
        if claim.deleting and not self._may_have_been_sent(launch_input):
            return await self._parts.failures.unlaunched(claim, launch_input.claim, self._not_sent(DELETED))
        if await self._group_is_left(launch_input, claim):
            return await self._parts.failures.unlaunched(claim, launch_input.claim, self._not_sent(GROUP_LEFT))
        type_names = sorted(_instance_types(launch_input.request))
        if breaker := await self._parts.breakers.admit(
            claim.pool, launch_input.claim.name, type_names, node_class=claim.class_key, sends=True
        ):
            return await self._parts.failures.unlaunched(
                claim, launch_input.claim, LaunchResult(waits=self._parts.failures.breaker_wait(breaker))
            )
        if self._was_refused_meanwhile(launch_input):
            result = LaunchResult(reason=Reason.INSUFFICIENT_CAPACITY, message=REFUSED_MEANWHILE)
            self._parts.record.refused(
                launch_input.claim, claim, result.reason, result.message, attempt=launch_input.attempt
            )
            return await self._parts.failures.unlaunched(claim, launch_input.claim, result)
        result = await self._send(launch_input, claim, read_at)
        refused, result = result.unavailable, evolve(result, unavailable=[])
        lacks_template = result.instance is None and result.reason == scopes.TEMPLATE_MISSING
        if lacks_template and launch_input.attempt < LAUNCH_ATTEMPTS:  # the next attempt creates it again
            return evolve(result, reason=Reason.TEMPLATE_GONE)
        if result.instance is None:
            result = await self._parts.failures.unlaunched(claim, launch_input.claim, result)
            if (
                result.waits is not None
                and launch_input.attempt
                and not (result.waits.unsettled or launch_input.unsettled)
            ):
                await self._parts.claims.record_attempt(launch_input.claim, launch_input.attempt + 1)
            return result
        cheaper = cheapest_refused(launch_input.request, refused, result.instance)
        price = requested_price(launch_input.request, result.instance)
        in_shortage = _shortage_annotation(claim, price, cheaper)
        try:
            await self._parts.claims.mark(
                launch_input.claim, result.instance, claim, launch_input.request.made_from, in_shortage
            )
        except nodeclaims.AnotherInstanceError as error:
            await terminate_surplus(
                self._parts.provider, self._parts.recorder, claim, result.instance.id, error.provider_id
            )
            raise  # the next attempt continues with the instance that the claim has
        instance = result.instance
        self._parts.record.launched(launch_input.claim, claim, instance, launch_input.request, launch_input.attempt)
        if in_shortage and cheaper is not None:
            await self._parts.recorder.publish(
                claim.body, EventReason.BOUGHT_IN_SHORTAGE, _dearer(instance, price, cheaper)
            )
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

        A launch may have waited for the outcome of others. A request that was sent before may have bought an instance,
        so it is always sent again.
        """
        request = launch_input.request
        unavailable = self._parts.breakers.unavailable()
        if self._may_have_been_sent(launch_input) or not unavailable:
            return False
        rows = [row for template in request.templates for row in template.overrides]
        return bool(rows) and all(
            OfferingKey.refusable(
                request.capacity_type, row.instance_type, row.zone, row.reservation_id, request.placement_group
            )
            in unavailable
            for row in rows
        )

    async def _send(self, launch_input: LaunchInput, claim: ClaimRecord, read_at: datetime) -> LaunchResult:
        """Send the request and record what EC2 refuses, for other claims and for the provisioner workflow.

        ``read_at``: before the claim was read.
        """
        pool, instance_types = claim.pool, _instance_types(launch_input.request)
        loop = asyncio.get_running_loop()
        context = copy_context()  # that of the activity, which says how often it was tried

        def check() -> None:
            coroutine = self._check_still_wanted(launch_input, claim, read_at)
            context.run(asyncio.run_coroutine_threadsafe, coroutine, loop).result(CHECK_WITHIN)

        def send() -> LaunchResult:
            with last_check.checking(check):
                return self._parts.provider.launch(launch_input.request)

        try:
            async with self._parts.throttled.shown(launch_input.claim, SENDING):
                result = await with_heartbeat(loop.run_in_executor(self._parts.senders, carried(send)))
        except last_check.NotWantedError as error:
            return self._not_sent(str(error))
        except EC2Error as error:
            wait = await self._parts.failures.failed(launch_input.claim, claim, error)
            self._parts.record.refused(
                launch_input.claim, claim, wait.reason, wait.message, attempt=launch_input.attempt
            )
            return LaunchResult(waits=wait)
        is_about_capacity = result.instance is not None or result.waits is None
        for refused in result.unavailable if is_about_capacity else ():
            if refused.capacity_type != launch_input.request.capacity_type:
                continue  # a full placement group is full for the other capacity types as well
            no_capacity = Reason.INSUFFICIENT_CAPACITY.camel_case
            metrics.LAUNCH_FAILURES.labels(refused.zone, "", refused.capacity_type, no_capacity).inc()
        self._parts.breakers.mark_unavailable(result.unavailable)
        if launch_input.request.group is not None and result.instance is not None:
            self._parts.groups.accepted(launch_input.request.group)
        if result.waits is not None and result.waits.new_token:
            return result  # EC2 has refused nothing
        if launch_input.request.group is not None and result.waits is not None and result.waits.has_answer:
            self._parts.groups.leave(launch_input.request.group)
        if result.reason == SPOT_ROLE_MISSING:
            await self._parts.recorder.publish(
                claim.body, EventReason.SPOT_ROLE_MISSING, f"{result.message}: {CREATE_SPOT_ROLE}"
            )
        lacks_capacity = result.instance is None and result.waits is None
        if result.instance is not None or lacks_capacity or result.reason == SUBNET_FULL:
            self._parts.breakers.launched(pool, instance_types, node_class=claim.class_key)
        elif result.waits is not None and result.waits.has_answer and result.reason != scopes.TEMPLATE_MISSING:
            metrics.LAUNCH_FAILURES.labels("", "", launch_input.request.capacity_type, result.reason).inc()
            fault = result.waits.class_fault
            types = frozenset() if fault == ClassFault.WHOLE else instance_types
            node_class = claim.class_key if fault else ""
            self._parts.breakers.refused(pool, result.reason, result.message, types, node_class=node_class)
        reason = Reason.INSUFFICIENT_CAPACITY if lacks_capacity else result.reason
        if result.unavailable or result.instance is None:
            why = reason or Reason.INSUFFICIENT_CAPACITY
            self._parts.record.refused(
                launch_input.claim, claim, why, result.message, result.unavailable, launch_input.attempt
            )
        return evolve(result, reason=reason)

    async def _check_still_wanted(self, launch_input: LaunchInput, claim: ClaimRecord, read_at: datetime) -> None:
        """Check that the launch, whose turn has come, is still for NodeClaims that want an instance.

        Raises:
            NotWantedError: the request would buy an instance for a NodeClaim that left.
        """
        if await self._group_is_left(launch_input, claim, fresh=True):
            raise last_check.NotWantedError(GROUP_LEFT)
        if self._may_have_been_sent(launch_input) or self._parts.now() - read_at <= READ_FOR:
            return  # a repeated request finds what it bought, and the claim was read a moment ago
        now = await nodeclaims.read_claim(self._parts.kube, launch_input.claim)
        if now is None or now.deleting:
            raise last_check.NotWantedError(DELETED)

    async def _group_is_left(self, launch_input: LaunchInput, claim: ClaimRecord, *, fresh: bool = False) -> bool:
        group, groups = launch_input.request.group, self._parts.groups
        return group is not None and await groups.is_left(claim, group, unsettled=launch_input.unsettled, fresh=fresh)

    def _may_have_been_sent(self, launch_input: LaunchInput) -> bool:
        """Whether the request may have been sent before, perhaps by another member of its launch group."""
        is_first_try = self._parts.failures.is_first_try
        return launch_input.unsettled or not is_first_try or launch_input.request.group is not None

    def _not_sent(self, why: str) -> LaunchResult:
        """The result of an attempt that asked EC2 for nothing. An earlier one may have bought an instance."""
        unsettled = not self._parts.failures.is_first_try
        return LaunchResult(waits=LaunchWait(reason=nodeclaims.LAUNCH_FAILED, message=why, unsettled=unsettled))


def _instance_types(request: LaunchRequest) -> frozenset[str]:
    """The instance types of a request: what EC2 answers to it is about them."""
    return frozenset(row.instance_type for template in request.templates for row in template.overrides)


def _shortage_annotation(claim: ClaimRecord, price: float, cheaper: FleetOverride | None) -> dict[str, str]:
    """The annotation of a node that costs far more than what EC2 refused; empty if the plan has written it already."""
    if cheaper is None or labels.BOUGHT_IN_SHORTAGE in claim.annotations:
        return {}
    return shortage_annotation(price, cheaper.price, price_factor(claim.annotations))


def _dearer(instance: Instance, price: float, cheaper: FleetOverride) -> str:
    return (
        f"EC2 refused cheaper instance types, {cheaper.instance_type} at {per_hour(cheaper.price)} first, and "
        f"launched {instance.instance_type} at {price_text(price)}; Tenon replaces the node when they are "
        "available again, if its NodePool allows consolidation"
    )
