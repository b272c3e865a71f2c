"""The offering that a NodeClaim was launched in, as refusals name it."""

from __future__ import annotations

from tenon.apis import labels
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.offerings import OfferingKey
from tenon.messages.offerings import OfferingRef


def offering_of(claim: ClaimRecord) -> list[OfferingRef]:
    """Return the offering of a NodeClaim, if its labels say all of it."""
    values = [claim.labels.get(key, "") for key in (labels.CAPACITY_TYPE, labels.INSTANCE_TYPE, labels.ZONE)]
    key = OfferingKey.refusable(values[0], values[1], values[2], claim.labels.get(labels.RESERVATION_ID, ""))
    return [OfferingRef.of(key)] if all(values) else []
