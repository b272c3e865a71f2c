"""The step "release node": the instance is gone, so remove Tenon's finalizers from Node and NodeClaim.

Other controllers may have finalizers on these objects. They must remove those themselves, so this step reports them and
does not wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.nodeclaim_deletion import request_deletion
from activities.kubernetes.resources import NODECLAIMS, NODES
from activities.node.nodes import find_node
from tenon.kube import object_json
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.event_reasons import EventReason
from tenon.messages.node_steps import ReleaseInput, ReleaseResult
from tenon.node.release import finalizer_message, foreign_finalizers, without_finalizer


async def release(
    kube: Kube, release_input: ReleaseInput, recorder: EventPublisher, claim: ClaimRecord | None
) -> ReleaseResult:
    """Delete Node and claim if they still exist, and remove the finalizers: from the Node first, which the claim names.

    Changes only the Node with the claim's provider ID and the claim with its UID. Objects that are gone are fine.

    ``claim`` is the claim as the caller has just read it, or None if it is gone.
    """
    changed_objects: list[Mapping[str, Any] | None] = []
    node = (await find_node(kube, release_input, claim)).node
    if node is not None:
        name, uid = node["metadata"]["name"], object_json.uid(node)
        leaving = object_json.is_deleting(node)
        if not leaving:
            await kube.delete(NODES, name, uid=uid)
        read_node = node if leaving else None
        changed_objects.append(await change(kube, NODES, name, without_finalizer, uid=uid, read_object=read_node))
    if claim is not None:
        await request_deletion(kube, claim)
        read_claim = claim.body if claim.deleting else None
        changed_objects.append(
            await change(kube, NODECLAIMS, claim.name, without_finalizer, uid=claim.uid, read_object=read_claim)
        )
    held_objects = [obj for obj in changed_objects if obj is not None and foreign_finalizers(obj)]
    for obj in held_objects:
        await recorder.publish(
            obj, EventReason.HELD_BY_FINALIZER, f"Tenon has removed its own finalizer; {finalizer_message(obj)}"
        )
    return ReleaseResult(held_by=[finalizer_message(obj) for obj in held_objects])
