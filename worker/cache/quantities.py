"""The quantities that NodeClaims and Nodes state. A quantity that cannot be read is logged and counts as nothing."""

from __future__ import annotations

from activities import loggers
from tenon.kube.claim_record import ClaimRecord
from tenon.resources import Resources, parse_resources

log = loggers.CACHE


def claimed(claim: ClaimRecord, field: str) -> Resources:
    """The resources in ``status.capacity`` or ``status.allocatable`` of a claim."""
    try:
        return parse_resources(claim.status.get(field))
    except (ValueError, AttributeError) as error:
        log.warning(
            "A quantity of a NodeClaim cannot be read",
            extra={"nodeclaim": claim.name, "field": f"status.{field}", "error": str(error)},
        )
        return {}


def requested(claim: ClaimRecord) -> Resources:
    """The requests of the pods that a claim was created for, from its spec."""
    try:
        return parse_resources((claim.spec.get("resources") or {}).get("requests"))
    except (ValueError, AttributeError) as error:
        log.warning(
            "A quantity of a NodeClaim cannot be read",
            extra={"nodeclaim": claim.name, "field": "spec.resources.requests", "error": str(error)},
        )
        return {}


def stated(resources: Resources) -> Resources:
    """The resources without zeros, which a kubelet reports for devices whose driver has not started."""
    return {name: amount for name, amount in resources.items() if amount}
