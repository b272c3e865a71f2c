"""Instances that EC2 ends before their Node joins: reads EC2's reason, shows it, and slows the next purchases.

EC2 accepts such a launch, for example with a volume whose KMS key no one may use, and ends the instance seconds later.
Without a pause Tenon would buy the next instance at once, again and again. EC2's reason says which launches must wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime

from activities import loggers
from activities.ec2.errors import EC2Error
from activities.ec2.provider import Ec2Provider
from activities.kubernetes import nodeclaims
from activities.kubernetes.client import Kube
from activities.kubernetes.events import EventPublisher
from activities.node.launch_breakers import LaunchBreakers
from tenon.apis import labels
from tenon.ec2.launch.claim_offering import offering_of
from tenon.ec2.refusals.state_reasons import BootFault, boot_fault
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.event_reasons import EventReason
from tenon.messages.base import ClaimRef

log = loggers.NODECLAIM_LIFECYCLE

ENDED = EventReason.INSTANCE_ENDED.value


class BootFailures:
    """Looks at the instances of NodeClaims that end unregistered."""

    def __init__(
        self,
        kube: Kube,
        recorder: EventPublisher,
        ec2: Ec2Provider,
        breakers: LaunchBreakers,
        now: Callable[[], datetime],
    ) -> None:
        self._kube = kube
        self._recorder = recorder
        self._ec2 = ec2
        self._breakers = breakers
        self._now = now

    async def look(self, ref: ClaimRef, instance_id: str) -> ClaimRecord | None:
        """Say on the claim why EC2 ended its instance, if it did so before the Node registered, and count the end.

        Returns:
            The claim as it was read; None if it is gone.
        """
        claim = await nodeclaims.read_claim(self._kube, ref)
        if claim is not None and not claim.registered:
            await self._say_why_ended(claim, ref, instance_id)
        return claim

    async def _say_why_ended(self, claim: ClaimRecord, ref: ClaimRef, instance_id: str) -> None:
        try:
            ended = await asyncio.to_thread(self._ec2.why_ended, instance_id)
        except EC2Error as error:
            log.info(
                "The worker failed to read why an instance ended",
                extra={"nodeclaim": ref.name, "instance": instance_id, "error": str(error)},
            )
            return
        if ended is None or (fault := boot_fault(ended[0])) is BootFault.NOTHING:
            return
        code, text = ended
        message = f"EC2 ended {instance_id} before its Node joined: {text or code}"
        if fault in (BootFault.OFFERING, BootFault.INTERNAL):
            self._breakers.mark_unavailable(offering_of(claim))
        if fault is not BootFault.OFFERING:
            node_class = "" if fault is BootFault.ACCOUNT else claim.class_key
            kinds = claim.image_and_type if fault is not BootFault.INTERNAL else {claim.labels.get(labels.ZONE, "")}
            self._breakers.ended_booting(code, message, instance_id, node_class=node_class, kinds=kinds)
        await nodeclaims.mark_instance_ended(self._kube, ref, ENDED, message, self._now)
        await self._recorder.publish(claim.body, EventReason.INSTANCE_ENDED, message)
        log.warning(
            "EC2 ended an instance before its Node joined",
            extra={"nodeclaim": ref.name, "instance": instance_id, "reason": code, "error": text},
        )
