"""Commits the reboot of a node: the NodeClaim records the request, then the node's workflow gets it.

Node repair and the node's workflow share it. If the workflow does not get it, it finds the record: the controller
`worker.controllers.node.nodeclaim_workflows` pokes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.service import RPCError, RPCStatusCode

from activities import loggers
from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.nodeclaims import ConditionUpdate, read_claim, update_conditions
from activities.kubernetes.resources import NODECLAIMS
from tenon.apis.nodeclaim import DISRUPTION_REASON, REBOOT_REQUESTED, REBOOTING
from tenon.apis.reasons import Reason
from tenon.errors import TenonError
from tenon.evolve import evolve
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.timestamps import time_text
from tenon.messages.base import ClaimRef
from tenon.messages.node import RebootAnswer, RebootRequest
from tenon.node.ids import REBOOT_UPDATE, nodeclaim_id
from tenon.node.reboot_record import REBOOTING_FOR, annotations_of, has_ended

log = loggers.NODECLAIM_LIFECYCLE


class NotRebootedError(TenonError):
    """The NodeClaim is being deleted, or its node reboots already."""


async def request_reboot(kube: Kube, client: Client, ref: ClaimRef, request: RebootRequest) -> RebootAnswer:
    """Record the request on the NodeClaim, and tell the node's workflow. A repetition changes nothing more.

    A request without a drain bound gets the terminationGracePeriod of the NodeClaim, if it has one.

    Raises:
        ApiError: the API server did not accept the record. The request may be repeated.
        RPCError: Temporal does not answer. The record is written, and the request may be repeated.
    """
    claim = await read_claim(kube, ref)
    if claim is None:
        return RebootAnswer(accepted=False, why=f"NodeClaim {ref.name} is gone")
    request = bounded(request, claim)
    try:
        if not await record_request(kube, ref, request, claim):
            return RebootAnswer(accepted=False, why=f"NodeClaim {ref.name} is gone")
    except NotRebootedError as error:
        return RebootAnswer(accepted=False, why=str(error))
    log.info(
        "The worker requested a reboot",
        extra={"nodeclaim": ref.name, "reason": request.reason, "operation": request.operation_id},
    )
    return await _tell(client, ref, request)


def bounded(request: RebootRequest, claim: ClaimRecord) -> RebootRequest:
    """The request with the drain bound of the NodeClaim if it has none of its own."""
    if request.drain_seconds is not None:
        return request
    return evolve(request, drain_seconds=claim.termination_grace_seconds)


async def record_request(kube: Kube, ref: ClaimRef, request: RebootRequest, claim: ClaimRecord) -> bool:
    """Write the request on the NodeClaim as it was read, or as it is if it changed since (N15-152).

    Returns:
        False if the NodeClaim is gone.

    Raises:
        NotRebootedError: the NodeClaim is being deleted, or another reboot goes on. Nothing was written.
    """

    def annotated(body: Mapping[str, Any]) -> dict[str, Any]:
        present = ClaimRecord.of(body)
        if _is_recorded(present, request):
            return {}
        annotations = annotations_of(present, request)
        changes = {name: text for name, text in annotations.items() if present.annotations.get(name) != text}
        return {"metadata": {"annotations": changes}} if changes else {}

    def guard(body: Mapping[str, Any]) -> None:
        _is_recorded(ClaimRecord.of(body), request)

    written = await change(kube, NODECLAIMS, ref.name, annotated, uid=ref.uid, read_object=claim.body)
    if written is None:
        return False
    if _is_recorded(ClaimRecord.of(written), request):
        return True
    updates = [ConditionUpdate(REBOOTING, "True", REBOOT_REQUESTED, f"{REBOOTING_FOR}{request.reason}")]
    if request.repairs:
        unhealthy = Reason.UNHEALTHY.camel_case
        updates.append(ConditionUpdate(DISRUPTION_REASON, "True", unhealthy, unhealthy))
    conditions = await update_conditions(
        kube, ref, updates, lambda: request.requested_at, read_object=written, guard=guard
    )
    return conditions is not None


def _is_recorded(claim: ClaimRecord, request: RebootRequest) -> bool:
    """Whether the NodeClaim has this very request. Raises NotRebootedError if it may not have it."""
    if claim.deleting:
        raise NotRebootedError(f"NodeClaim {claim.name} is being deleted")
    if has_ended(claim, request):
        return True
    since = claim.reboot_requested_at
    if since is None:
        return False
    if since != request.requested_at:
        raise NotRebootedError(f"NodeClaim {claim.name} reboots already, since {time_text(since)}")
    return True


async def _tell(client: Client, ref: ClaimRef, request: RebootRequest) -> RebootAnswer:
    handle = client.get_workflow_handle(nodeclaim_id(ref.cluster, ref.name))
    try:
        answer: RebootAnswer = await handle.execute_update(
            REBOOT_UPDATE, request, id=request.operation_id, result_type=RebootAnswer
        )
        return answer
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return RebootAnswer(accepted=True, why="its workflow is started again and finds the request on its NodeClaim")
    except WorkflowUpdateFailedError as error:
        return RebootAnswer(accepted=False, why=str(error.cause))
