"""The activities of a reboot, under the names that the Temporal UI shows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from temporalio import activity

from activities import loggers, metrics
from activities.clock import utc_now
from activities.ec2.provider import Ec2Provider
from activities.heartbeat import with_heartbeat
from activities.kubernetes.client import Kube
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.nodeclaims import read_claim
from activities.kubernetes.rate_limit import RequestClass, requests_as
from activities.node import rebooting
from activities.node.nodes import find_node
from activities.node.reboot_drain import drain_for_reboot
from tenon.apis import labels
from tenon.apis.reasons import Reason
from tenon.messages.base import ActivityName
from tenon.messages.node_steps import NodeInput
from tenon.messages.reboot import (
    BootRecord,
    FenceInput,
    FenceResult,
    RebootCheck,
    RebootCheckInput,
    RebootDrainInput,
    RebootDrainResult,
    RebootEnded,
    RebootFailure,
    RebootInput,
    RebootOutcome,
    RebootReply,
)
from tenon.node.cordon import drain_reason
from tenon.node.reboot_record import has_ended

log = loggers.NODECLAIM_LIFECYCLE


class RebootActivities:
    """Each step of a reboot as its own activity. All but the call of EC2 may be repeated."""

    def __init__(self, kube: Kube, recorder: EventPublisher, ec2: Ec2Provider) -> None:
        self._kube = kube
        self._recorder = recorder
        self._ec2 = ec2

    @activity.defn(name=ActivityName.FENCE)
    async def fence(self, fence_input: FenceInput) -> FenceResult:
        """Record the reboot on the NodeClaim, and keep new pods away from its Node."""
        return await rebooting.fence(self._kube, fence_input)

    @activity.defn(name=ActivityName.DRAIN_FOR_REBOOT)
    async def drain_for_reboot(self, drain_input: RebootDrainInput) -> RebootDrainResult:
        """Evict the pods in waves, without deleting any."""
        with requests_as(RequestClass.EVICT):
            result = await with_heartbeat(drain_for_reboot(self._kube, self._recorder, drain_input, utc_now))
        metrics.PODS_DRAINED.labels(drain_reason(Reason.UNHEALTHY)).inc(result.evicted)
        return result

    @activity.defn(name=ActivityName.RECORD_BOOT)
    async def record_boot(self, node_input: NodeInput) -> BootRecord:
        """Record the boot ID on the NodeClaim before EC2 is asked."""
        return await rebooting.record_boot(self._kube, node_input)

    @activity.defn(name=ActivityName.REBOOT)
    async def reboot(self, reboot_input: RebootInput) -> RebootReply:
        """Ask EC2 to reboot the instance, if its Node still reports the recorded boot."""
        claim = await read_claim(self._kube, reboot_input.claim)
        if claim is None or claim.deleting:
            return RebootReply(outcome=RebootOutcome.WITHDRAWN)
        node = (await find_node(self._kube, NodeInput(claim=reboot_input.claim), claim)).node
        if has_ended(claim, reboot_input.request) or claim.pre_boot_id != reboot_input.boot_id:
            return RebootReply(outcome=RebootOutcome.UNKNOWN, message="the NodeClaim says that it was issued before")
        if node is not None and rebooting.boot_id_of(node) != reboot_input.boot_id:
            return RebootReply(outcome=RebootOutcome.UNKNOWN, message="the machine has booted")
        extra = {
            "nodeclaim": claim.name,
            "instance": reboot_input.instance_id or claim.instance_id,
            "operation": reboot_input.operation_id,
        }
        zones = claim.labels.get(labels.ZONE_ID, ""), claim.labels.get(labels.ZONE, "")
        call = asyncio.to_thread(self._ec2.reboot, reboot_input.instance_id or claim.instance_id, zones)
        reply = await with_heartbeat(call)
        log.info("The worker asked EC2 to reboot an instance", extra={**extra, "outcome": reply.outcome.value})
        return reply

    @activity.defn(name=ActivityName.CHECK_REBOOT)
    async def check_reboot(self, check_input: RebootCheckInput) -> RebootCheck:
        """Look whether the machine has booted and its Node is Ready."""
        return await rebooting.check(self._kube, self._recorder, check_input, utc_now)

    @activity.defn(name=ActivityName.END_FAILED_REBOOT)
    async def end_failed_reboot(self, failure: RebootFailure) -> RebootEnded:
        """Remove the fence after a reboot that failed, and record the failure."""
        return await rebooting.end_failed(self._kube, self._recorder, failure, utc_now)

    def all(self) -> Sequence[Callable[..., Any]]:
        """All activities."""
        return [
            self.fence,
            self.drain_for_reboot,
            self.record_boot,
            self.reboot,
            self.check_reboot,
            self.end_failed_reboot,
        ]
