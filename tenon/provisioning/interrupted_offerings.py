"""Finds the offerings that EC2 takes back, by the reasons that interrupted NodeClaims record.

The replica that reads a notice also reports the offering to the provisioner's workflow, which passes it to later plans.
But the deletion of the NodeClaim is seen at once, and the batch of other pods may close before the report arrives. Its
plan would buy the replacement where EC2 needs the capacity.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from tenon.ec2.instances.interruption import TAKES_CAPACITY
from tenon.ec2.launch.claim_offering import offering_of
from tenon.ec2.refusals.unavailable import UNAVAILABLE_OFFERINGS_TTL
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.offerings import OfferingKey
from tenon.node.leave_text import recorded


def interrupted_offerings(claims: Iterable[ClaimRecord], now: datetime) -> dict[OfferingKey, datetime]:
    """Return the offerings of NodeClaims that leave because of a notice, each with the time until plans avoid it."""
    return {
        offering.key: until
        for claim in claims
        if claim.deleted_at is not None
        and (until := claim.deleted_at + UNAVAILABLE_OFFERINGS_TTL) > now
        and any(removal.reason in TAKES_CAPACITY for removal in recorded(claim.annotations))
        for offering in offering_of(claim)
    }
