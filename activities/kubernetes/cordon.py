"""The step "cordon node": taint the Node against new pods, and request the deletion of NodeClaim and Node."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.events import EventRecorder
from activities.kubernetes.nodeclaims import (
    Clock,
    Fact,
    annotate_claim,
    clear_fact,
    ensure_claim_finalizer,
    read_claim,
    request_deletion,
    set_facts,
)
from activities.kubernetes.nodes import find_node, pods_on
from activities.kubernetes.resources import NODES
from tenon.apis import labels
from tenon.apis.nodeclaim import DISRUPTION_REASON
from tenon.apis.reasons import camel_case
from tenon.kube import pods
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.structs import Object
from tenon.kube.timestamps import format_instant
from tenon.lifecycle import cordon as decide
from tenon.lifecycle import drain
from tenon.lifecycle.messages.base import ClaimRef
from tenon.lifecycle.messages.node import CordonInput, CordonResult, NodeInput


async def cordon(kube: Kube, recorder: EventRecorder, wanted: CordonInput, now: Clock) -> CordonResult:
    """Taint the Node, then delete claim and Node. Their finalizers keep the objects until the instance is gone.

    With ``only_if_empty``, list the pods after the taint, so that no pod can be scheduled in between. If there are any,
    remove the taint again. If the claim or Node is already being deleted, nothing is undone.
    """
    claim = await read_claim(kube, wanted.claim)
    # A claim that never had a Node has nothing to cordon. If the claim is gone, look for the Node anyway.
    node = (await find_node(kube, wanted, claim)).node if claim is None or claim.registered else None
    found: list[dict[str, Any]] = []
    if node is not None:
        node = await change(kube, NODES, node["metadata"]["name"], decide.cordoned, uid=pods.uid(node))
    if node is not None:
        name = node["metadata"]["name"]
        found = await pods_on(kube, name)
        staying = [pod for pod in found if pods.is_reschedulable(pod)]
        if wanted.only_if_empty and staying and not _is_leaving(claim, node):
            await _uncordon(kube, node)
            return CordonResult(
                cordoned=False, node_name=name, pods=len(staying), claim_exists=claim is not None, node_exists=True
            )
    force_at = wanted.termination_timestamp
    if claim is not None:
        claim, force_at = await _delete_claim(kube, wanted, claim, now)
    if node is not None:
        name = node["metadata"]["name"]
        if not node["metadata"].get("deletionTimestamp"):
            await kube.delete(NODES, name, uid=pods.uid(node))
        if force_at is not None:
            text = f"all pods will be deleted by {format_instant(force_at)}, whatever protects them"
            for subject in (node, claim.body if claim is not None else None):
                if subject is not None:
                    await recorder.publish(subject, "TerminationGracePeriodExpiring", text, "Warning")
    return CordonResult(
        node_name=node["metadata"]["name"] if node is not None else "",
        pods=len(drain.remaining_pods(found, now())),
        force_at=force_at,
        claim_exists=claim is not None,
        node_exists=node is not None,
    )


async def withdraw(kube: Kube, ref: ClaimRef, node_name: str) -> bool:
    """Remove the cordon from a node that stays, and the disruption condition from its claim.

    The cordon may be left over from a workflow that was terminated, or set by a user.

    Returns:
        Whether something was removed. Nothing is removed if the claim or Node is being deleted or is gone.
    """
    claim = await read_claim(kube, ref)
    if claim is None or not claim.registered:
        return False
    node = (await find_node(kube, NodeInput(claim=ref, node_name=node_name), claim)).node
    if node is None or _is_leaving(claim, node):
        return False
    # Clear the claim first: a retry still finds the taint on the Node.
    cleared = await clear_fact(kube, ref, DISRUPTION_REASON)
    return await _uncordon(kube, node) or cleared


async def _uncordon(kube: Kube, node: Object) -> bool:
    """Remove the cordon from the Node, and return whether it had one."""
    marked = bool(decide.uncordoned(node))
    await change(kube, NODES, node["metadata"]["name"], decide.uncordoned, uid=pods.uid(node))
    return marked


def _is_leaving(claim: ClaimRecord | None, node: Object) -> bool:
    return claim is None or claim.deleting or pods.deletion_instant(node) is not None


async def _delete_claim(
    kube: Kube, wanted: CordonInput, claim: ClaimRecord, now: Clock
) -> tuple[ClaimRecord | None, datetime | None]:
    """Record the reason on the claim and delete it. Then write when the drain becomes forceful.

    That time is counted from the deletion.
    """
    await ensure_claim_finalizer(kube, wanted.claim)
    if decide.is_disruption(wanted.reason):
        await set_facts(kube, wanted.claim, [Fact(DISRUPTION_REASON, "True", camel_case(wanted.reason))], now)
    await request_deletion(kube, claim)
    deleted = await read_claim(kube, wanted.claim)
    subject = deleted or claim
    force_at = drain.force_instant(
        subject.deleted_at or now(),
        subject.termination_grace_seconds,
        wanted.termination_timestamp,
        subject.termination_timestamp,
    )
    if force_at is not None and deleted is not None:
        await annotate_claim(kube, wanted.claim, {labels.TERMINATION_TIMESTAMP: format_instant(force_at)})
    return deleted, force_at
