"""The quantities that NodeClaims and Nodes state. A quantity that cannot be read is logged and counts as nothing."""

from __future__ import annotations

import logging

from tenon.kube.claim_record import ClaimRecord
from tenon.resources import Resources, parse_resources

log = logging.getLogger(__name__)


def claimed(claim: ClaimRecord, field: str) -> Resources:
    """The resources in ``status.capacity`` or ``status.allocatable`` of a claim."""
    try:
        return parse_resources(claim.status.get(field))
    except (ValueError, AttributeError) as error:
        log.warning("NodeClaim %s: status.%s cannot be read: %s", claim.name, field, error)
        return {}


def requested(claim: ClaimRecord) -> Resources:
    """The requests of the pods that a claim was created for, from its spec."""
    try:
        return parse_resources((claim.spec.get("resources") or {}).get("requests"))
    except (ValueError, AttributeError) as error:
        log.warning("NodeClaim %s: spec.resources.requests cannot be read: %s", claim.name, error)
        return {}


def stated(resources: Resources) -> Resources:
    """The resources without zeros, which a kubelet reports for devices whose driver has not started."""
    return {name: amount for name, amount in resources.items() if amount}
