"""The steps of a reboot on the API server: fence, boot ID, look for the new boot, end what failed.

Every step reads the NodeClaim first, and only acts for the reboot that the NodeClaim records. So a workflow that an
operator reset does not reboot a node again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from activities import loggers, metrics
from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.nodeclaims import Clock, ConditionUpdate, annotate_claim, read_claim, update_conditions
from activities.kubernetes.repair_outcomes import record_outcome
from activities.kubernetes.resources import NODECLAIMS, NODES
from activities.node.nodes import find_node
from activities.node.reboot_request import NotRebootedError, bounded, record_request
from tenon.apis import labels
from tenon.apis.nodeclaim import (
    DISRUPTION_REASON,
    INITIALIZED,
    REBOOT_FAILED,
    REBOOT_ISSUED,
    REBOOT_SUCCEEDED,
    REBOOTING,
)
from tenon.apis.noderepairpolicy import RecentRepair
from tenon.kube import object_json
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.conditions import is_true
from tenon.kube.event_reasons import EventReason
from tenon.kube.structs import Object
from tenon.kube.timestamps import format_instant, parse_instant, time_text
from tenon.messages.base import ClaimRef
from tenon.messages.node import RebootRequest
from tenon.messages.node_steps import NodeInput
from tenon.messages.reboot import (
    BootRecord,
    FenceInput,
    FenceResult,
    RebootCheck,
    RebootCheckInput,
    RebootEnded,
    RebootFailure,
    RebootResult,
)
from tenon.node import reboot_fence
from tenon.node.reboot_record import drain_bound, has_ended, recorded_request

log = loggers.NODECLAIM_LIFECYCLE


async def fence(kube: Kube, fence_input: FenceInput) -> FenceResult:
    """Record the request unless the NodeClaim has it, and keep new pods away from the Node."""
    ref, request = fence_input.claim, fence_input.request
    claim = await read_claim(kube, ref)
    if claim is not None and not claim.rebooting:
        with contextlib.suppress(NotRebootedError):  # the claim, read again, says why
            await record_request(kube, ref, bounded(request, claim), claim)
        claim = await read_claim(kube, ref)
    if claim is None or claim.deleting:
        return FenceResult(claim_stays=False)
    if has_ended(claim, request):
        return FenceResult(ended=True)
    _, invalid = drain_bound(claim)
    node = (await find_node(kube, fence_input, claim)).node
    issued = claim.condition(REBOOTING).get("reason") == REBOOT_ISSUED
    if node is not None and not invalid and not issued:
        await _change_node(kube, node, reboot_fence.fenced)
    return FenceResult(
        node_exists=node is not None,
        request=recorded_request(claim),
        invalid=invalid,
        pre_boot_id=claim.pre_boot_id,
        boot_id=boot_id_of(node) if node is not None else "",
        issued=issued,
        issued_at=_issued_at(claim),
    )


async def record_boot(kube: Kube, node_input: NodeInput) -> BootRecord:
    """Write on the NodeClaim which boot the Node reports, unless an earlier attempt has (N15-158)."""
    claim = await read_claim(kube, node_input.claim)
    node = (await find_node(kube, node_input, claim)).node if claim is not None and not claim.deleting else None
    if claim is None or node is None:
        return BootRecord()
    if not claim.rebooting:
        return BootRecord(ended=True)
    boot_id = boot_id_of(node)
    if not claim.pre_boot_id and boot_id:
        await annotate_claim(kube, node_input.claim, {labels.REBOOT_PRE_BOOT_ID: boot_id}, claim.body)
    return BootRecord(pre_boot_id=claim.pre_boot_id or boot_id, boot_id=boot_id)


async def check(kube: Kube, recorder: EventPublisher, check_input: RebootCheckInput, now: Clock) -> RebootCheck:
    """Look whether the machine has booted. If EC2 accepted the reboot, keep the NodeClaim and the Node up to date.

    The Node loses the fence at the new boot, and the reboot has succeeded when the Node is Ready too (N15-162).
    """
    ref, request = check_input.claim, check_input.request
    claim = await read_claim(kube, ref)
    if claim is None or claim.deleting:
        return RebootCheck(node_exists=False)
    if has_ended(claim, request):
        await _clean(kube, ref)
        return RebootCheck(ended=True)
    if check_input.issued:
        claim = await _mark_issued(kube, ref, claim, now) or claim
    node = (await find_node(kube, check_input, claim)).node
    if node is None:
        return RebootCheck(node_exists=False)
    rebooted, ready = boot_id_of(node) not in ("", check_input.boot_id), is_true(node, "Ready")
    if not check_input.issued:
        return RebootCheck(rebooted=rebooted, ready=ready)
    await _change_node(kube, node, reboot_fence.booted if rebooted else reboot_fence.issued)
    if rebooted:
        at = time_text(request.requested_at)
        text = f"the machine has booted again, as was requested at {at}"
        await recorder.publish(claim.body, EventReason.REBOOT_OBSERVED, text)
    if not (rebooted and ready):
        return RebootCheck(rebooted=rebooted, ready=ready)
    await _record_repair(kube, ref, request, RebootResult.SUCCEEDED, now())
    done = ConditionUpdate(REBOOTING, "False", REBOOT_SUCCEEDED, "the machine has booted and its Node is Ready")
    await _end(kube, ref, request, done, now)
    _count(request, RebootResult.SUCCEEDED, now())
    if check_input.issued_at is not None:
        metrics.REBOOT_RECOVERY_SECONDS.observe((now() - check_input.issued_at).total_seconds())
    await _clean(kube, ref)
    return RebootCheck(rebooted=True, ready=True, ended=True)


async def end_failed(kube: Kube, recorder: EventPublisher, failure: RebootFailure, now: Clock) -> RebootEnded:
    """Remove the fence, and say on the NodeClaim why the reboot failed and when its pods must be gone (N15-164)."""
    ref, request = failure.claim, failure.request
    claim = await read_claim(kube, ref)
    if claim is None or claim.deleting or has_ended(claim, request):
        return RebootEnded()
    node = (await find_node(kube, failure, claim)).node
    if node is not None:
        await _change_node(kube, node, reboot_fence.unfenced)
    at = time_text(request.requested_at)
    text = f"the reboot that was requested at {at} failed: {failure.message}"
    await recorder.publish(claim.body, EventReason.REBOOT_FAILED, text)
    await _record_repair(kube, ref, request, failure.result, now())
    if failure.stays:
        ended = ConditionUpdate(REBOOTING, "False", REBOOT_FAILED, failure.message)
        await _end(kube, ref, request, ended, now)
        await _clean(kube, ref)
    else:
        seconds, _ = drain_bound(claim)
        if seconds is not None:
            await _tighten(kube, ref, now() + timedelta(seconds=seconds))
    _count(request, failure.result, now())
    extra = {"nodeclaim": ref.name, "result": failure.result.value, "error": failure.message}
    log.warning("A reboot failed", extra=extra)
    return RebootEnded()


async def _end(kube: Kube, ref: ClaimRef, request: RebootRequest, update: ConditionUpdate, now: Clock) -> None:
    """Say on the NodeClaim that the reboot is over, at a later second than its request, as `has_ended` requires.

    It may end within the second of its request, or be from a clock that is ahead.
    """
    earliest = request.requested_at + timedelta(seconds=1)
    await update_conditions(kube, ref, [update], lambda: max(now(), earliest), cleared=(DISRUPTION_REASON,))


def boot_id_of(node: Object) -> str:
    """The boot ID that the Node's kubelet reports; empty if it reports none."""
    return str(((node.get("status") or {}).get("nodeInfo") or {}).get("bootID") or "")


async def _mark_issued(kube: Kube, ref: ClaimRef, claim: ClaimRecord, now: Clock) -> ClaimRecord | None:
    """Say on the NodeClaim that EC2 reboots the machine, so that its node counts as not initialized (N15-161)."""
    message = str(claim.condition(REBOOTING).get("message") or "")
    updates = [
        ConditionUpdate(REBOOTING, "True", REBOOT_ISSUED, message),
        ConditionUpdate(INITIALIZED, "Unknown", REBOOTING, "the node reboots"),
    ]
    return await update_conditions(kube, ref, updates, now, read_object=claim.body)


def _issued_at(claim: ClaimRecord) -> datetime | None:
    """Since when the NodeClaim is not initialized because of its reboot."""
    initialized = claim.condition(INITIALIZED)
    unknown = initialized.get("status") == "Unknown" and initialized.get("reason") == REBOOTING
    return parse_instant(initialized.get("lastTransitionTime")) if unknown else None


async def _change_node(kube: Kube, node: Object, compute: Any) -> None:
    await change(kube, NODES, node["metadata"]["name"], compute, uid=object_json.uid(node), read_object=node)


async def _clean(kube: Kube, ref: ClaimRef) -> None:
    """Remove the boot ID of a reboot that is over. If that fails, the next reboot does it."""

    def without(claim: Mapping[str, Any]) -> dict[str, Any]:
        present = labels.REBOOT_PRE_BOOT_ID in object_json.annotations(claim)
        return {"metadata": {"annotations": {labels.REBOOT_PRE_BOOT_ID: None}}} if present else {}

    await change(kube, NODECLAIMS, ref.name, without, uid=ref.uid)


async def _tighten(kube: Kube, ref: ClaimRef, deadline: datetime) -> None:
    """Write when the pods must be gone, unless the NodeClaim says an earlier time (N15-325)."""

    def earlier(body: Mapping[str, Any]) -> dict[str, Any]:
        written = ClaimRecord.of(body).termination_timestamp
        if written is not None and written <= deadline:
            return {}
        return {"metadata": {"annotations": {labels.TERMINATION_TIMESTAMP: format_instant(deadline)}}}

    await change(kube, NODECLAIMS, ref.name, earlier, uid=ref.uid)


async def _record_repair(
    kube: Kube, ref: ClaimRef, request: RebootRequest, result: RebootResult, now: datetime
) -> None:
    """Count the reboot in the status of the policy that asked for it, before the NodeClaim says that it is over."""
    repair = RecentRepair(
        id=request.operation_id,
        node_claim=ref.name,
        fault=request.reason,
        action="RebootNode",
        outcome=result.value,
        at=now,
    )
    await record_outcome(kube, request.policy, repair)


def _count(request: RebootRequest, result: RebootResult, now: datetime) -> None:
    metrics.REBOOTS.labels(result.value).inc()
    metrics.REBOOT_SECONDS.labels(result.value).observe((now - request.requested_at).total_seconds())
