"""The quantities that NodeClaims and Nodes state. A quantity that cannot be read is logged and counts as nothing."""

from __future__ import annotations

from typing import Any

from activities import loggers
from tenon.kube.claim_record import ClaimRecord
from tenon.resources import CPU, MEMORY, Resources, parse_resources

log = loggers.CACHE

TIMES_CLAIMED = 2
"""How many times the CPU and memory of its NodeClaim a Node may report. EC2's memory minus an estimate is claimed."""


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


def credible(reported: Resources, capacity: Resources) -> Resources:
    """What a Node reports, with at most `TIMES_CLAIMED` the CPU and memory of its NodeClaim, because a kubelet may
    report anything.

    User data may well give a node more pods and ephemeral storage than planned.

    Args:
        reported: the Node's capacity or allocatable.
        capacity: that of the NodeClaim, which Tenon wrote after the launch; empty if there is none.
    """
    limits = {name: TIMES_CLAIMED * capacity[name] for name in (CPU, MEMORY) if name in capacity}
    if all(reported.get(name, 0) <= limit for name, limit in limits.items()):
        return reported
    return {name: min(amount, limits.get(name, amount)) for name, amount in reported.items()}
