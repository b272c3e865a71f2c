"""Reads and writes NodeClaims: the view for the workflow, conditions, metadata and finalizer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from temporalio.exceptions import ApplicationError

from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS
from tenon.apis import labels
from tenon.apis.common import Condition, ConditionStatus
from tenon.apis.conditions import clear_condition, set_condition, set_root
from tenon.apis.managed import manages_claim
from tenon.apis.nodeclaim import CONSISTENT_STATE_FOUND, INSTANCE_TERMINATING, LAUNCHED, READY_DEPENDENTS, REGISTERED
from tenon.apis.reasons import camel_case
from tenon.errors import TenonError
from tenon.kube.claim_record import ClaimRecord, instance_id_of
from tenon.kube.structs import Object
from tenon.kube.timestamps import format_instant
from tenon.messages.base import ClaimRef, ErrorType
from tenon.messages.explanation import Explanation
from tenon.messages.launch import ClaimView, Instance
from tenon.node import consistency, leave_text
from tenon.node.reboot_record import recorded_request
from tenon.node.release import with_finalizer
from tenon.resources import Resources, format_resources

Clock = Callable[[], datetime]
Guard = Callable[[Object], None]
"""Raises if a claim must not be changed."""

LAUNCH_FAILED = "LaunchFailed"
TAGGED = {labels.TAGGED: "true", labels.CLUSTER_TAGGED: "true"}
"""The annotations of a NodeClaim whose instance has all its tags. They keep Karpenter from writing tags."""
_MAX_MESSAGE = 1024


class AnotherInstanceError(TenonError):
    """Another controller, or another launch, has given the claim an instance."""

    def __init__(self, claim: str, provider_id: str) -> None:
        super().__init__(f"NodeClaim {claim} has the instance {provider_id} already, which stays")
        self.provider_id = provider_id


@dataclass(frozen=True, slots=True)
class ConditionUpdate:
    """A condition to set."""

    type: str
    status: ConditionStatus
    reason: str = ""
    message: str = ""


async def read_claim(kube: Kube, ref: ClaimRef) -> ClaimRecord | None:
    """The claim, or None if it is gone or another claim has its name.

    Raises:
        ApplicationError: of type NodeClaimNotManaged: the claim belongs to another controller and must not be changed.
    """
    claim = await kube.get(NODECLAIMS, ref.name)
    if claim is None or claim["metadata"].get("uid") != ref.uid:
        return None
    check_managed(claim)
    return ClaimRecord.of(claim)


def check_managed(claim: Object) -> None:
    """Refuse to write a claim of another controller.

    Raises:
        ApplicationError: it is one. The activity is not retried.
    """
    if not manages_claim(claim):
        raise ApplicationError(
            f"NodeClaim {claim['metadata']['name']} is left alone: its nodeClassRef names no EC2NodeClass",
            type=ErrorType.NOT_MANAGED,
            non_retryable=True,
        )


def _conditions(claim: Object) -> list[Condition]:
    """The conditions in the claim's status, to be changed and written back."""
    return [Condition.model_validate(raw) for raw in (claim.get("status") or {}).get("conditions") or ()]


def view_of(claim: ClaimRecord) -> ClaimView:
    """The workflow's view of a NodeClaim."""
    explanation = Explanation.of(claim.annotations.get(labels.EXPLANATION, ""))
    return ClaimView(
        exists=True,
        deleting=claim.deleting,
        removals=leave_text.recorded(claim.annotations),
        pool=claim.pool,
        node_class=claim.node_class,
        created_at=claim.created_at,
        expire_after_seconds=claim.expire_after_seconds,
        termination_grace_seconds=claim.termination_grace_seconds,
        keep_until=claim.keep_until,
        node_name=claim.node_name,
        registered=claim.registered,
        initialized=claim.initialized,
        reboot=recorded_request(claim),
        reboots=claim.reboots,
        planned_pods=len(claim.planned_pods),
        explanation=list(explanation.lines),
        bought_for=explanation.purpose,
    )


async def ensure_claim_finalizer(kube: Kube, ref: ClaimRef, read_object: Object | None = None) -> bool:
    """Add the finalizer, so that a deletion waits until the instance is gone. Return False if the claim is gone.

    ``read_object``, here and below, is the claim as the caller has just read it.
    """
    return await _with_finalizer(kube, ref.name, ref.uid, read_object)


async def _with_finalizer(kube: Kube, name: str, uid: str, read_object: Object | None) -> bool:
    def compute(claim: Object) -> dict[str, Any]:
        check_managed(claim)
        return with_finalizer(claim)

    return await change(kube, NODECLAIMS, name, compute, uid=uid, read_object=read_object) is not None


async def annotate_claim(
    kube: Kube, ref: ClaimRef, annotations: Mapping[str, str], read_object: Object | None = None
) -> bool:
    """Write the annotations that are missing or differ. Return False if the claim is gone."""
    return await _merge_metadata(kube, ref, {}, annotations, read_object) is not None


async def label_claim(
    kube: Kube, ref: ClaimRef, labels_: Mapping[str, str], read_object: Object | None = None
) -> ClaimRecord | None:
    """Write the labels that are missing or differ. Return the claim afterwards, or None if it is gone."""
    written = await _merge_metadata(kube, ref, labels_, {}, read_object)
    return None if written is None else ClaimRecord.of(written)


async def record_keep(kube: Kube, ref: ClaimRef, until: datetime) -> bool:
    """Record on the claim, where it outlives the workflow, until when an operator wants to keep the node.

    Returns:
        False if the claim is gone.
    """
    return await annotate_claim(kube, ref, {labels.KEEP_UNTIL: format_instant(until)})


async def mark_launched(
    kube: Kube,
    ref: ClaimRef,
    instance: Instance,
    *,
    capacity: Resources,
    allocatable: Resources,
    labels_: Mapping[str, str],
    now: Clock,
    annotations: Mapping[str, str] | None = None,
    read_object: Object | None = None,
) -> bool:
    """Record the launch on the claim: first the metadata, then the status with Launched, which confirms all of it.

    This is written even while Tenon stands by: another controller would launch a claim without a provider ID again.

    Returns:
        False if the claim is gone.

    Raises:
        AnotherInstanceError: the claim has another instance, and nothing was written.
    """
    kube = kube.without_gate()

    def unless_taken(claim: Object) -> None:
        present = (claim.get("status") or {}).get("providerID")
        if present and instance_id_of(present) != instance.id:
            raise AnotherInstanceError(ref.name, present)

    labelled = await _merge_metadata(kube, ref, labels_, annotations or {}, read_object, unless_taken)
    if labelled is None:
        return False
    fields = {
        "providerID": instance.provider_id,
        "imageID": instance.image_id,
        "capacity": format_resources(capacity),
        "allocatable": format_resources(allocatable),
    }
    launched = [ConditionUpdate(LAUNCHED, "True")]
    marked = await update_conditions(kube, ref, launched, now, fields=fields, read_object=labelled, guard=unless_taken)
    return marked is not None


async def mark_launch_failed(
    kube: Kube, ref: ClaimRef, reason: str, message: str, now: Clock, *, provider_id: str = ""
) -> bool:
    """Record on the claim why it has no instance yet. Return False if the claim is gone.

    ``provider_id``: that of an instance which the claim had, and which is gone.

    Raises:
        AnotherInstanceError: another attempt, perhaps of another worker, has launched the claim. Nothing was written.
    """
    failed = [ConditionUpdate(LAUNCHED, "Unknown", camel_case(reason) or LAUNCH_FAILED, message)]

    def unless_launched(claim: Object) -> None:
        present = (claim.get("status") or {}).get("providerID")
        if present and present != provider_id:
            raise AnotherInstanceError(ref.name, present)

    return await update_conditions(kube, ref, failed, now, guard=unless_launched) is not None


async def mark_instance_ended(kube: Kube, ref: ClaimRef, reason: str, message: str, now: Clock) -> bool:
    """Record on the claim why its instance ended before its Node joined. Return False if the claim is gone."""
    ended = [ConditionUpdate(REGISTERED, "False", reason, message)]
    return await update_conditions(kube, ref, ended, now) is not None


async def mark_instance_terminating(
    kube: Kube, ref: ClaimRef, now: Clock, read_object: Object | None = None
) -> ClaimRecord | None:
    """Record on the claim that its instance is terminating. Return the claim afterwards, or None if it is gone."""
    terminating = [ConditionUpdate(INSTANCE_TERMINATING, "True")]
    return await update_conditions(kube, ref, terminating, now, read_object=read_object)


def consistency_condition(shortfalls: Sequence[str]) -> ConditionUpdate:
    """The condition that says whether the Node has what the claim promises."""
    if not shortfalls:
        return ConditionUpdate(CONSISTENT_STATE_FOUND, "True")
    return ConditionUpdate(CONSISTENT_STATE_FOUND, "False", consistency.REASON, "; ".join(shortfalls))


async def update_conditions(
    kube: Kube,
    ref: ClaimRef,
    updates: Sequence[ConditionUpdate],
    now: Clock,
    *,
    fields: Mapping[str, Any] | None = None,
    cleared: Collection[str] = (),
    read_object: Object | None = None,
    guard: Guard | None = None,
) -> ClaimRecord | None:
    """Set conditions, the root condition Ready that depends on them, and status fields.

    ``cleared``: types of conditions to remove. ``guard`` sees the claim that is changed, and may raise.

    Returns:
        The claim afterwards, or None if it is gone.
    """

    def compute(claim: Object) -> dict[str, Any]:
        check_managed(claim)
        if guard is not None:
            guard(claim)
        patch = status_patch(claim, updates, now(), fields or {}, cleared)
        return {"status": patch} if patch else {}

    changed = await change(
        kube, NODECLAIMS, ref.name, compute, uid=ref.uid, subresource="status", read_object=read_object
    )
    return None if changed is None else ClaimRecord.of(changed)


async def clear_fact(kube: Kube, ref: ClaimRef, type_: str) -> bool:
    """Remove a condition, and return whether it was there."""
    was_there = False

    def compute(claim: Object) -> dict[str, Any]:
        nonlocal was_there
        before = _conditions(claim)
        after = clear_condition(before, type_)
        was_there = after != before
        return {"status": {"conditions": [condition.to_dict() for condition in after]}} if was_there else {}

    return (
        await change(kube, NODECLAIMS, ref.name, compute, uid=ref.uid, subresource="status") is not None and was_there
    )


def status_patch(
    claim: Object,
    updates: Sequence[ConditionUpdate],
    now: datetime,
    fields: Mapping[str, Any],
    cleared: Collection[str] = (),
) -> dict[str, Any]:
    """The merge patch for the status: only the fields and conditions that change."""
    status = claim.get("status") or {}
    patch: dict[str, Any] = {name: value for name, value in fields.items() if status.get(name) != value}
    before = _conditions(claim)
    after = [condition for condition in before if condition.type not in cleared]
    generation = claim["metadata"].get("generation")
    for update in updates:
        after = set_condition(
            after,
            update.type,
            update.status,
            now=now,
            reason=update.reason,
            message=update.message[:_MAX_MESSAGE],
            observed_generation=generation,
        )
    after = set_root(after, READY_DEPENDENTS, now=now, observed_generation=generation)
    if after != before:
        patch["conditions"] = [new_condition.to_dict() for new_condition in after]
    return patch


async def _merge_metadata(
    kube: Kube,
    ref: ClaimRef,
    labels_: Mapping[str, str],
    annotations: Mapping[str, str],
    read_object: Object | None = None,
    guard: Guard | None = None,
) -> dict[str, Any] | None:
    """Write labels and annotations. Return the claim afterwards, or None if it is gone."""

    def compute(claim: Object) -> dict[str, Any]:
        check_managed(claim)
        if guard is not None:
            guard(claim)
        patch: dict[str, Any] = {}
        for field, additions in (("labels", labels_), ("annotations", annotations)):
            present = claim["metadata"].get(field) or {}
            missing = {name: text for name, text in additions.items() if present.get(name) != text}
            if missing:
                patch[field] = missing
        return {"metadata": patch} if patch else {}

    return await change(kube, NODECLAIMS, ref.name, compute, uid=ref.uid, read_object=read_object)
