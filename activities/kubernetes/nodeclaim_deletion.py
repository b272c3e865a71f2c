"""Deletes NodeClaims, and records on each why, before it is deleted: its workflow cannot know the reason otherwise.

The first reason wins. A deletion waits only for the finalizer, which keeps the claim until its instance is gone.
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import Any

from activities import loggers
from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ApiUnreachableError
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.nodeclaims import annotate_claim, check_managed, read_claim
from activities.kubernetes.resources import NODECLAIMS
from activities.tracing import spans
from tenon.apis import labels
from tenon.apis.reasons import Reason
from tenon.evolve import evolve
from tenon.kube import object_json
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.event_reasons import EventReason
from tenon.kube.structs import Object
from tenon.kube.timestamps import format_instant
from tenon.messages.base import ClaimRef
from tenon.messages.node import Removal
from tenon.node import leave_text
from tenon.node.release import with_finalizer

log = loggers.NODECLAIM_LIFECYCLE

LAUNCH_EVENTS = {
    Reason.INSUFFICIENT_CAPACITY: EventReason.INSUFFICIENT_CAPACITY,
    Reason.NODECLASS_NOT_READY: EventReason.NODE_CLASS_NOT_READY,
}
"""The reason why a claim is deleted before it has an instance, to the reason of the event about it."""


async def delete_claim(kube: Kube, recorder: EventPublisher, ref: ClaimRef, reason: str, message: str) -> bool:
    """Delete a claim that could not be launched, with an event if the reason has one.

    Returns:
        False if the claim is gone.
    """
    claim = await read_claim(kube, ref)
    if claim is None:
        return False
    known_reason = Reason.of(reason)
    if known_reason in LAUNCH_EVENTS:
        await recorder.publish(claim.body, LAUNCH_EVENTS[known_reason], message)
    await note_removal(kube, claim, Removal(reason=reason, detail=message, actor=leave_text.WORKFLOW))
    await request_deletion(kube, claim)
    return True


async def delete_with_finalizer(kube: Kube, claim: ClaimRecord, removal: Removal) -> bool:
    """Request the deletion of exactly this claim, and make sure that its finalizer keeps it until the instance is gone.

    Without the finalizer, which a user may have removed, the claim would be gone at once, and its node would not drain.
    The removal is recorded on the claim first, for its node's workflow. If that fails, the deletion does not wait for
    it, and it is tried once more afterwards.

    Returns:
        False if the claim is gone or is being deleted already, although the cache may not show it yet. So a caller that
        counts deletions counts each once.
    """
    if claim.deleting:
        return False
    outcome = await record_before_deletion(kube, claim, removal)
    if outcome in (Recorded.GONE, Recorded.LEAVES):
        return False
    try:
        existed = await kube.delete(NODECLAIMS, claim.name, uid=claim.uid)
    except ApiUnreachableError:
        raise
    except ApiError:  # the claim stays, and a later deletion has another reason
        await _forget_removals(kube, claim)
        raise
    if existed and outcome is Recorded.NO:
        await note_removal(kube, claim, removal, first=True)
    return existed


async def delete_without_grace(kube: Kube, ref: ClaimRef, claim: ClaimRecord, removal: Removal, now: datetime) -> bool:
    """Like `delete_with_finalizer`, for a node that leaves by force: its claim says first that its grace is over.

    If the API server refuses the deletion, the claim gets back the time that it had: its node may recover, and leave
    for another reason weeks later, with its grace.
    """
    if claim.is_forced(now):
        return await delete_with_finalizer(kube, claim, removal)
    await annotate_claim(kube, ref, {labels.TERMINATION_TIMESTAMP: format_instant(now)})
    try:
        return await delete_with_finalizer(kube, claim, removal)
    except ApiUnreachableError:
        raise
    except ApiError:
        await _restore_grace(kube, claim)
        raise


async def end_grace(kube: Kube, ref: ClaimRef, claim: ClaimRecord, removal: Removal, now: datetime) -> bool:
    """Write on a claim that is being deleted already that the grace period of its node is over, and why.

    ``claim`` was just read. The reason comes last, because it makes the node's workflow go on with a drain that pauses.

    Returns:
        False if its grace period was over, or the claim is gone.
    """
    if claim.is_forced(now):
        return False
    written = await annotate_claim(kube, ref, {labels.TERMINATION_TIMESTAMP: format_instant(now)}, claim.body)
    if written:
        await note_removal(kube, claim, removal)
    return written


async def _restore_grace(kube: Kube, claim: ClaimRecord) -> None:
    before = claim.annotations.get(labels.TERMINATION_TIMESTAMP)

    def compute(present: Object) -> dict[str, Any]:
        stays = not object_json.is_deleting(present)
        return {"metadata": {"annotations": {labels.TERMINATION_TIMESTAMP: before}}} if stays else {}

    await change(kube, NODECLAIMS, claim.name, compute, uid=claim.uid)


class Recorded(Enum):
    """Whether the reason of a removal is on its NodeClaim."""

    YES = "yes"
    NO = "no"
    GONE = "gone"
    """There is no such NodeClaim any more."""
    LEAVES = "leaves"
    """It is, and the NodeClaim is being deleted already."""


async def record_before_deletion(kube: Kube, claim: ClaimRecord, removal: Removal) -> Recorded:
    """Write on the claim why it is about to be deleted. The deletion does not wait for it, only for the finalizer."""
    # A claim that has a reason may be deleted since it was read, and no write would show that.
    read_object = None if labels.DELETED_BECAUSE in claim.annotations else claim.body
    try:
        present = await record_removal(kube, claim, removal, read_object=read_object)
    except ApiError as error:
        if not claim.has_finalizer:
            raise
        extra = {"nodeclaim": claim.name, "reason": removal.reason, "error": str(error)}
        log.warning("The worker failed to record why it deletes a NodeClaim", extra=extra)
        return Recorded.NO
    if present is None:
        return Recorded.GONE
    return Recorded.LEAVES if object_json.is_deleting(present) else Recorded.YES


async def _forget_removals(kube: Kube, claim: ClaimRecord) -> None:
    try:
        await clear_removals(kube, claim)
    except ApiError as error:
        extra = {"nodeclaim": claim.name, "error": str(error)}
        log.warning("The worker failed to remove the reason of a deletion that failed", extra=extra)


async def record_removal(
    kube: Kube,
    claim: ClaimRef | ClaimRecord,
    removal: Removal,
    *,
    read_object: Object | None = None,
    first: bool = False,
) -> Object | None:
    """Write on the claim why it is about to be deleted, and the finalizer. Return the claim, or None if it is gone.

    What is recorded already stays: the first reason wins. If nothing is recorded on a claim that is being deleted, the
    reason of its deletion is not known, and comes before this one, unless this one is the ``first``.
    """

    if trace := spans.traceparent():
        removal = evolve(removal, trace=trace)

    def compute(present: Object) -> dict[str, Any]:
        check_managed(present)
        metadata = dict(with_finalizer(present).get("metadata", {}))
        deleting = object_json.is_deleting(present) and not first
        annotation = leave_text.with_removal(object_json.annotations(present), removal, deleting=deleting)
        if annotation:
            metadata["annotations"] = annotation
        return {"metadata": metadata} if metadata else {}

    return await change(kube, NODECLAIMS, claim.name, compute, uid=claim.uid, read_object=read_object)


async def clear_removals(kube: Kube, claim: ClaimRecord) -> None:
    """Remove the recorded reasons from a claim that stays: a later deletion has another one."""

    def compute(present: Object) -> dict[str, Any]:
        stays = not object_json.is_deleting(present)
        recorded = labels.DELETED_BECAUSE in object_json.annotations(present)
        return {"metadata": {"annotations": {labels.DELETED_BECAUSE: None}}} if stays and recorded else {}

    await change(kube, NODECLAIMS, claim.name, compute, uid=claim.uid)


async def note_removal(kube: Kube, claim: ClaimRecord, removal: Removal, *, first: bool = False) -> None:
    """Write on the claim a reason to remove it. Nothing waits for it, so a failure is only logged."""
    try:
        await record_removal(kube, claim, removal, first=first)
    except ApiError as error:
        extra = {"nodeclaim": claim.name, "reason": removal.reason, "error": str(error)}
        log.warning("The worker failed to record why a NodeClaim is removed", extra=extra)


async def request_deletion(kube: Kube, claim: ClaimRecord) -> None:
    """Request the deletion of exactly this claim, if it is not being deleted. Leave its finalizers as they are."""
    if not claim.deleting:
        await kube.delete(NODECLAIMS, claim.name, uid=claim.uid)
