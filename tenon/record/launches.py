"""Makes the entries of launches and refusals."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tenon.apis import labels
from tenon.apis.reasons import Reason, camel_case
from tenon.kube.claim_record import ClaimRecord
from tenon.messages.explanation import Explanation
from tenon.messages.launch import Instance, LaunchRequest, PrepareLaunchResult
from tenon.messages.offerings import OfferingRef
from tenon.node.leave_text import command_text
from tenon.record.entries import LaunchEntry, RecordedNode, RefusalEntry
from tenon.record.origin import Origin
from tenon.record.room import EntryRoom
from tenon.sentences import shortened

MAX_TEXT = 2000


def launch_entry(
    origin: Origin,
    at: datetime,
    claim: ClaimRecord,
    instance: Instance,
    request: LaunchRequest | None = None,
    attempt: int = 1,
) -> LaunchEntry:
    """Return the entry of an instance that EC2 launched. ``request``: what was sent; None if an earlier process did."""
    templates = request.templates if request is not None else []
    return LaunchEntry(
        id=f"launch/{origin.cluster}/{claim.name}/{instance.id}",
        at=at,
        cluster=origin.cluster,
        workflow=origin.workflow,
        run=origin.run,
        actor=buyer(claim),
        facts=RecordedNode(
            claim=claim.name,
            pool=claim.pool,
            node=claim.node_name,
            instance=instance.id,
            instance_type=instance.instance_type,
            zone=instance.zone,
            capacity_type=instance.capacity_type,
            price=instance.price,
        ),
        launched_at=instance.launched_at,
        image=instance.image_id,
        offered=sum(len(template.overrides) for template in templates),
        attempt=max(1, attempt),
        why=Explanation.of(claim.annotations.get(labels.EXPLANATION, "")),
    )


def refusal_entry(
    origin: Origin,
    at: datetime,
    claim: ClaimRecord,
    *,
    step: str,
    reason: str,
    message: str,
    offerings: Sequence[OfferingRef] = (),
    attempt: int = 1,
) -> RefusalEntry:
    """Return the entry of a launch that EC2, or the EC2NodeClass, refused.

    ``step``: identifies the step of the workflow that was refused. Its retries have the same.
    """
    code = camel_case(reason)
    return RefusalEntry(
        id=f"refusal/{origin.cluster}/{claim.name}/{origin.run}/{step}/{code}",
        at=at,
        cluster=origin.cluster,
        workflow=origin.workflow,
        run=origin.run,
        actor=buyer(claim),
        claim=claim.name,
        pool=claim.pool,
        code=code,
        message=shortened(message, MAX_TEXT),
        offerings=EntryRoom().names(map(_offering_text, offerings)),
        offering_count=len(offerings),
        attempt=max(1, attempt),
    )


def refuses(result: PrepareLaunchResult) -> bool:
    """Return whether the preparation of a launch ended with a refusal, and not with a wait for something else."""
    waits = result.waits
    held_back = waits is not None and (waits.breaker_open or waits.launched)
    return bool(result.reason) and not held_back and result.reason != Reason.INSTANCE_GONE


def buyer(claim: ClaimRecord) -> str:
    """Return who buys the node of a NodeClaim."""
    if command := claim.replacement_for:
        return command_text(command)
    if claim.batch:
        return "provisioner"
    return f"static NodePool {claim.pool}" if claim.pool else ""


def _offering_text(offering: OfferingRef) -> str:
    scope = f"{offering.scope} {offering.scope_name}".strip()
    return " ".join(filter(None, (offering.capacity_type, offering.instance_type, offering.zone, scope)))
