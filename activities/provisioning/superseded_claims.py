"""Deletes NodeClaims that EC2 refuses because of their EC2NodeClass, once all their pods have another place.

Such a NodeClaim waits for a person to correct the class. Its pods do not wait with it if another NodePool serves them,
and without them the NodeClaim would launch a node that nothing needs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from activities import loggers
from activities.cluster_view.interfaces import ClusterView
from activities.kubernetes import nodeclaim_deletion
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.event_references import claim_reference
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.resources import NODECLAIMS
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.event_reasons import EventReason
from tenon.messages.node import Removal
from tenon.messages.provisioning import LaunchBreaker

log = loggers.PROVISIONER

RefusedClaims = Mapping[str, tuple[ClaimRecord, LaunchBreaker]]
"""By name, the NodeClaims that EC2 refuses, each with the breaker of its EC2NodeClass."""


async def delete_superseded(
    kube: Kube, recorder: EventPublisher, view: ClusterView, refused: RefusedClaims, placed: Collection[str]
) -> None:
    """Delete those of the refused NodeClaims whose waiting pods all have another place, by this plan or an earlier one.

    ``placed``: the UIDs of the pods that this plan places. A NodeClaim that was launched meanwhile stays.
    """
    kept_claims: set[str] = set()
    moved: set[str] = set()
    for pod in view.pending_pods() if refused else ():
        names = {claim.name for claim in view.claims_for(pod)}
        has_another = pod.uid in placed or bool(names - refused.keys())
        (moved if has_another else kept_claims).update(names & refused.keys())
    launching = {claim.name for claim in view.launching_claims()} if moved else set()
    for name in sorted((moved - kept_claims) & launching):
        claim, breaker = refused[name]
        message = (
            f"Its pods get other nodes, because EC2 refuses what EC2NodeClass {claim.node_class} asks for: "
            f"{breaker.reason}: {breaker.message}"
        )
        try:
            if await _was_launched(kube, claim):
                continue
            await recorder.publish(claim_reference(name, claim.uid), EventReason.LAUNCH_FAILED, message)
            removal = Removal(reason=breaker.reason, detail=message, actor="controller provisioner")
            await nodeclaim_deletion.note_removal(kube, claim, removal)
            await nodeclaim_deletion.request_deletion(kube, claim)
        except ApiError as error:  # it is given up when its launch timeout is over
            log.warning(
                "The worker failed to delete a NodeClaim whose pods have other nodes",
                extra={"nodeclaim": name, "error": str(error)},
            )
            continue
        log.info(
            "A NodeClaim that EC2 refuses is deleted, because its pods have other nodes",
            extra={"nodeclaim": name, "reason": breaker.reason},
        )


async def _was_launched(kube: Kube, claim: ClaimRecord) -> bool:
    """Whether the NodeClaim has an instance, which the cache may not show yet."""
    present = await kube.get(NODECLAIMS, claim.name)
    return present is not None and bool(ClaimRecord.of(present).provider_id)
