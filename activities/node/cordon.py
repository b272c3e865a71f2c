"""The step "cordon node": taint the Node against new pods, and request the deletion of NodeClaim and Node."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from activities import metrics
from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.nodeclaim_deletion import Recorded, clear_removals, record_before_deletion, request_deletion
from activities.kubernetes.nodeclaims import (
    Clock,
    ConditionUpdate,
    annotate_claim,
    clear_fact,
    read_claim,
    update_conditions,
)
from activities.kubernetes.nodepools import consolidation_policy
from activities.kubernetes.resources import NODES
from activities.node.nodes import find_node, pods_on
from tenon.apis import labels
from tenon.apis.nodeclaim import DISRUPTION_REASON
from tenon.apis.reasons import Reason, camel_case, snake_case
from tenon.disruption.rules.held_pods import holder
from tenon.evolve import evolve
from tenon.kube import object_json
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.event_reasons import EventReason
from tenon.kube.protection import node_protection
from tenon.kube.records import PodRecord
from tenon.kube.structs import Object
from tenon.kube.timestamps import format_instant, time_text
from tenon.messages.base import ClaimRef
from tenon.messages.node_steps import CordonInput, CordonResult, NodeInput
from tenon.node import cordon as decide
from tenon.node import drain


async def cordon(kube: Kube, recorder: EventPublisher, cordon_input: CordonInput, now: Clock) -> CordonResult:
    """Taint the Node, then delete claim and Node. Their finalizers keep the objects until the instance is gone.

    With ``only_if_empty``, a node with pods stays, and so does one that an annotation protects by now. If the claim or
    Node is already being deleted, nothing is undone.
    """
    claim = await read_claim(kube, cordon_input.claim)
    # A claim that never had a Node has nothing to cordon. If the claim is gone, look for the Node anyway.
    node = (await find_node(kube, cordon_input, claim)).node if claim is None or claim.registered else None
    if node is not None and cordon_input.only_if_empty and not _is_leaving(claim, node):
        node, keeping = await _taint_if_empty(kube, node, claim, cordon_input, now)
        if node is not None and keeping.stays:
            return CordonResult(
                cordoned=False,
                node_name=node["metadata"]["name"],
                pods=keeping.pods,
                protection=keeping.protection,
                claim_exists=claim is not None,
                node_exists=True,
            )
    node_pods: list[PodRecord] = []
    if node is not None:
        node = await change(
            kube, NODES, node["metadata"]["name"], decide.cordoned, uid=object_json.uid(node), read_object=node
        )
    if node is not None:
        node_pods = await pods_on(kube, node["metadata"]["name"])
    force_at = cordon_input.termination_timestamp
    if claim is not None:
        before = claim
        claim, force_at = await _delete_claim(kube, cordon_input, claim, now)
        await _count_pods(kube, cordon_input, before, node_pods, force_at, now())
    if node is not None:
        name = node["metadata"]["name"]
        if not object_json.is_deleting(node):
            await kube.delete(NODES, name, uid=object_json.uid(node))
        if force_at is not None:
            text = f"all pods will be deleted by {time_text(force_at)}, whatever protects them"
            for subject in [node, *([claim.body] if claim is not None else [])]:
                await recorder.publish(subject, EventReason.TERMINATION_GRACE_PERIOD_EXPIRING, text)
    await _say_why(recorder, cordon_input, claim, node)
    return CordonResult(
        node_name=node["metadata"]["name"] if node is not None else "",
        pods=len(drain.remaining_pods(node_pods, now())),
        force_at=force_at,
        claim_exists=claim is not None,
        node_exists=node is not None,
    )


async def _say_why(
    recorder: EventPublisher, cordon_input: CordonInput, claim: ClaimRecord | None, node: Object | None
) -> None:
    """Publish on NodeClaim and Node why the node leaves, who asked for it and what it was.

    This is the only place that does so, whatever made the node leave. A repetition publishes the same event again.
    """
    text = f"{cordon_input.why}; {cordon_input.life}" if cordon_input.life else cordon_input.why
    subjects = [subject for subject in (claim.body if claim is not None else None, node) if subject is not None]
    await asyncio.gather(*(recorder.publish(subject, EventReason.DISRUPTED, text) for subject in subjects))


async def _count_pods(
    kube: Kube,
    cordon_input: CordonInput,
    before: ClaimRecord,
    node_pods: Sequence[PodRecord],
    force_at: datetime | None,
    now: datetime,
) -> None:
    """Count the pods that must move because Tenon requested the deletion of their node (MET-28, N15-528).

    A repetition counts nothing, and neither does a deletion that a user requested.
    """
    reason = cordon_input.removal.reason
    known_reason = Reason.of(reason)
    if before.deleting or not reason or (known_reason is not None and known_reason.is_by_hand):
        return
    capacity_type = before.labels.get(labels.CAPACITY_TYPE, "")
    if known_reason is Reason.UNHEALTHY:
        condition, bound = decide.condition_label(cordon_input.fault), decide.repair_mode(force_at, now)
        metrics.CLAIMS_UNHEALTHY.labels(condition, before.pool, capacity_type, before.image_id, bound).inc()
    metrics.PODS_DISRUPTED.labels(
        snake_case(reason),
        before.pool,
        capacity_type,
        await consolidation_policy(kube, before.pool, reason),
        before.termination_mode,
    ).inc(sum(pod.reschedulable for pod in node_pods))


async def withdraw(kube: Kube, ref: ClaimRef, node_name: str, *, command: str = "") -> bool:
    """Remove the cordon from a node that stays, and the disruption condition from its claim.

    The cordon may be left over from a workflow that was terminated, or set by a user. What belongs to an open
    disruption command stays, unless it is this ``command``; so does that of a node that reboots (N15-170).

    Returns:
        Whether something was removed. Nothing is removed if the claim or Node is being deleted or is gone.
    """
    claim = await read_claim(kube, ref)
    if claim is None or not claim.registered or claim.rebooting or claim.disrupted_by not in ("", command):
        return False
    node = (await find_node(kube, NodeInput(claim=ref, node_name=node_name), claim)).node
    if node is None or _is_leaving(claim, node):
        return False
    # Clear the claim first: a retry still finds the taint on the Node.
    await clear_removals(kube, claim)
    cleared = await clear_fact(kube, ref, DISRUPTION_REASON)
    return await _uncordon(kube, node) or cleared


@dataclass(frozen=True, slots=True)
class _Keeping:
    """What keeps a node that a command took for empty and not protected."""

    pods: int = 0
    """The pods that would need another node."""
    protection: str = ""
    """The annotation of its Node, NodeClaim or one of its pods that protects it, in a clause."""

    @property
    def stays(self) -> bool:
        return bool(self.pods or self.protection)


_NOTHING = _Keeping()


async def _taint_if_empty(
    kube: Kube, node: Object, claim: ClaimRecord | None, cordon_input: CordonInput, now: Clock
) -> tuple[dict[str, Any] | None, _Keeping]:
    """Taint the Node unless pods on it would need another node, or an annotation protects it.

    The decision was made from a cache, in which changes of Nodes and pods come late and in no common order.

    List the pods before the taint, so that a busy node is never marked, and after it, so that no pod can be scheduled
    in between. A node that stays loses the taint, also that of an earlier attempt. It never had the label that excludes
    it from load balancers, which follows when the node is sure to leave.

    Returns:
        The Node, or None if it is gone; and what makes it stay.
    """
    name, uid = node["metadata"]["name"], object_json.uid(node)
    present: dict[str, Any] | None = dict(node)
    keeping = await _keeping(kube, node, claim, cordon_input, now())
    if not keeping.stays:
        present = await change(kube, NODES, name, decide.tainted, uid=uid, read_object=node)
        keeping = await _keeping(kube, present, claim, cordon_input, now()) if present is not None else _NOTHING
    if not keeping.stays or present is None or _is_leaving(claim, present):
        return present, _NOTHING
    await _uncordon(kube, present)
    return present, keeping


async def _keeping(
    kube: Kube, node: Object, claim: ClaimRecord | None, cordon_input: CordonInput, now: datetime
) -> _Keeping:
    """What keeps the node, by the API server. PodDisruptionBudgets are left to the drain."""
    node_pods = await pods_on(kube, node["metadata"]["name"])
    count = sum(pod.reschedulable for pod in node_pods)
    if cordon_input.unused:
        return _Keeping(count)
    of_claim, keep_until = (claim.annotations, claim.keep_until) if claim is not None else ({}, None)
    protection = node_protection(of_claim, object_json.annotations(node), keep_until, now)
    return _Keeping(count, protection or holder(((pod, ()) for pod in node_pods), now))


async def _uncordon(kube: Kube, node: Object) -> bool:
    """Remove the cordon from the Node, and return whether it had one."""
    marked = bool(decide.uncordoned(node))
    await change(kube, NODES, node["metadata"]["name"], decide.uncordoned, uid=object_json.uid(node), read_object=node)
    return marked


def _is_leaving(claim: ClaimRecord | None, node: Object) -> bool:
    return claim is None or claim.deleting or object_json.is_deleting(node)


async def _delete_claim(
    kube: Kube, cordon_input: CordonInput, claim: ClaimRecord, now: Clock
) -> tuple[ClaimRecord | None, datetime | None]:
    """Record the reason on the claim and delete it. Then write when the drain becomes forceful.

    That time is counted from the deletion.
    """
    recorded = await record_before_deletion(kube, claim, evolve(cordon_input.removal, by_workflow=True))
    bound, written = cordon_input.termination_timestamp, claim.termination_timestamp
    if bound is not None and (written is None or bound < written):  # what deletes the claim otherwise finds it too
        await annotate_claim(kube, cordon_input.claim, {labels.TERMINATION_TIMESTAMP: format_instant(bound)})
    reason = cordon_input.removal.reason
    if decide.has_disruption_reason(reason):
        await update_conditions(
            kube, cordon_input.claim, [ConditionUpdate(DISRUPTION_REASON, "True", camel_case(reason))], now
        )
    deleted: ClaimRecord | None = claim
    if not claim.deleting:
        await request_deletion(kube, claim)
        deleted = await read_claim(kube, cordon_input.claim)
    elif recorded is Recorded.GONE:
        deleted = None
    subject = deleted or claim
    force_at = drain.force_instant(
        subject.deleted_at or now(),
        subject.termination_grace_seconds,
        cordon_input.termination_timestamp,
        subject.termination_timestamp,
    )
    if force_at is not None and deleted is not None:
        await annotate_claim(kube, cordon_input.claim, {labels.TERMINATION_TIMESTAMP: format_instant(force_at)})
    return deleted, force_at
