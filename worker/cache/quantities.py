"""The quantities that NodeClaims and Nodes state; what cannot be read is told and counts as nothing."""

from __future__ import annotations

import logging

from tenon.kube.records import ObjectRecord
from tenon.resources import Resources, parse_resources

log = logging.getLogger(__name__)


def claimed(claim: ObjectRecord, field: str) -> Resources:
    """The ``capacity`` or ``allocatable`` in the status of a claim."""
    try:
        return parse_resources(claim.status.get(field))
    except (ValueError, AttributeError) as error:
        log.warning("NodeClaim %s: status.%s cannot be read: %s", claim.name, field, error)
        return {}


def requested(claim: ObjectRecord) -> Resources:
    """What the pods of a claim request, as its spec says."""
    try:
        return parse_resources((claim.spec.get("resources") or {}).get("requests"))
    except (ValueError, AttributeError) as error:
        log.warning("NodeClaim %s: spec.resources.requests cannot be read: %s", claim.name, error)
        return {}


def stated(resources: Resources) -> Resources:
    """Without the zeros that a kubelet reports of devices whose driver has not started."""
    return {name: amount for name, amount in resources.items() if amount}
