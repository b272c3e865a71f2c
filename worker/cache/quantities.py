"""The quantities that NodeClaims and Nodes state. A quantity that cannot be read is logged and counts as nothing."""

from __future__ import annotations

from typing import Any

from activities import loggers
from tenon.kube.claim_record import ClaimRecord
from tenon.resources import Resources, parse_resources

log = loggers.CACHE


def claimed(claim: ClaimRecord, field: str) -> Resources:
    """The resources in ``status.capacity`` or ``status.allocatable`` of a claim."""
    return _quantities(claim, "status", field)


def requested(claim: ClaimRecord) -> Resources:
    """The requests of the pods that a claim was created for, from its spec."""
    return _quantities(claim, "spec", "resources", "requests")


def _quantities(claim: ClaimRecord, *path: str) -> Resources:
    try:
        value: Any = claim.body
        for name in path:
            value = value.get(name) or {}
        return parse_resources(value)
    except (ValueError, AttributeError) as error:
        log.warning(
            "A quantity of a NodeClaim cannot be read",
            extra={"nodeclaim": claim.name, "field": ".".join(path), "error": str(error)},
        )
        return {}


def stated(resources: Resources) -> Resources:
    """The resources without zeros, which a kubelet reports for devices whose driver has not started."""
    return {name: amount for name, amount in resources.items() if amount}
