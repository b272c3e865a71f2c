"""Events about the NodePools of a plan: what keeps them from launching nodes."""

from __future__ import annotations

from collections.abc import Mapping

from activities import metrics
from activities.kubernetes.errors import ApiError
from activities.kubernetes.event_references import pool_reference
from activities.kubernetes.events import EventPublisher
from activities.provisioning.claim_writer import ClaimWrite, Written
from tenon.apis.nodepool import NodePool
from tenon.kube.event_reasons import EventReason


async def publish_missing_types(
    recorder: EventPublisher, pools: Mapping[str, NodePool], without_types: Mapping[str, str]
) -> None:
    """Write an event on each NodePool for which no instance type is available. ``without_types`` says why, by pool."""
    for name, why in without_types.items():
        message = f"{why[0].upper()}{why[1:]}"
        await recorder.publish(pool_reference(pools[name]), EventReason.NO_COMPATIBLE_INSTANCE_TYPES, message)


async def publish_refused_claims(recorder: EventPublisher, pools: Mapping[str, NodePool], written: Written) -> None:
    """Write an event on each NodePool whose NodeClaims the API server refused, with one of its messages."""
    refused: dict[str, list[tuple[ClaimWrite, ApiError]]] = {}
    for unwritten in written.unwritten:
        if (error := unwritten.refusal) is not None:
            refused.setdefault(unwritten.planned.pool, []).append((unwritten, error))
            metrics.CLAIMS_REFUSED.labels(unwritten.planned.pool, error.reason).inc()
    for name, refusal in refused.items():
        pods = sum(len(unwritten.planned.pods) for unwritten, _ in refusal)
        message = refusal[0][1].message
        await recorder.publish(
            pool_reference(pools[name]),
            EventReason.FAILED_CREATE,
            f"The API server refused {len(refusal)} of its NodeClaims, for {pods} pods: {message}",
        )
