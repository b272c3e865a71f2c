"""The offering that a NodeClaim was launched in, as refusals name it."""

from __future__ import annotations

from tenon.apis import labels
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.offerings import OfferingKey
from tenon.messages.offerings import OfferingRef


def offering_of(claim: ClaimRecord) -> list[OfferingRef]:
    """Return the offering of a NodeClaim, if its labels say all of it."""
    capacity_type, instance_type, zone, *_ = OfferingKey.of_labels(claim.labels)
    if not (capacity_type and instance_type and zone):
        return []
    reservation = claim.labels.get(labels.RESERVATION_ID, "")
    return [OfferingRef.of(OfferingKey.refusable(capacity_type, instance_type, zone, reservation))]
