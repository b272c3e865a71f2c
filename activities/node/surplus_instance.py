"""Terminates an instance that Tenon launched for a NodeClaim which got another instance meanwhile.

Another controller may begin to lead while a launch of Tenon waits for EC2, and launch the same NodeClaim. What it wrote
stays, because its instance may run pods already. Nothing else refers to Tenon's own instance, and a sweep would find it
only minutes later.
"""

from __future__ import annotations

import asyncio

from activities import loggers, metrics
from activities.ec2.errors import EC2Error
from activities.ec2.provider import Ec2Provider
from activities.kubernetes.events import EventPublisher
from tenon.kube.claim_record import ClaimRecord, instance_id_of
from tenon.kube.event_reasons import EventReason

log = loggers.NODECLAIM_LIFECYCLE


async def terminate_surplus(
    ec2: Ec2Provider, recorder: EventPublisher, claim: ClaimRecord, instance_id: str, kept_instance: str
) -> None:
    """Terminate the instance, and say so on the NodeClaim. ``kept_instance`` is the provider ID that the claim has."""
    metrics.SURPLUS_INSTANCES.labels(claim.pool).inc()
    outcome = f"Tenon terminates {instance_id}"
    try:
        await asyncio.to_thread(ec2.terminate, instance_id)
    except EC2Error as error:
        outcome = f"Tenon could not terminate {instance_id} ({error}), and its next sweep does"
    log.warning(
        "A NodeClaim has another instance than the one that was launched for it, which is surplus",
        extra={"nodeclaim": claim.name, "instance": instance_id, "provider-id": kept_instance},
    )
    why = (
        f"Tenon launched {instance_id} for this NodeClaim, which another controller had given the instance "
        f"{instance_id_of(kept_instance) or kept_instance} meanwhile: {outcome}"
    )
    await recorder.publish(claim.body, EventReason.SURPLUS_INSTANCE, why)
