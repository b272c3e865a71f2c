"""Which NodeClaims ask EC2 whether it has capacity again, for pods that only refused offerings would fit.

A probe is an ordinary NodeClaim for such a pod, without the restriction to avoid the offerings that are due. Each
offering is asked for once, whatever the number of pods: EC2's answer holds for all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from tenon.apis import labels
from tenon.ec2.refusals.unavailable import concerns_types
from tenon.kube.offerings import OfferingKey
from tenon.kube.pod import Pod
from tenon.provisioning.purchase_pauses import group_of
from tenon.scheduling.model import Plan, PlannedClaim

MAX_GROUPS = 20
"""How many groups of pods one plan probes for."""
MAX_PODS_COMPARED = 1000
"""How many pods are sorted into groups. The pods of a large group are alike, and other plans begin with others."""


def pods_to_probe_for(pods: Sequence[Pod], unschedulable: Collection[str], turn: int) -> list[Pod]:
    """Return one pod of each group that has no place.

    Args:
        pods: the pods of the plan.
        unschedulable: the keys of those without a place.
        turn: a number that grows with each plan, so that all groups get their turn.
    """
    waiting = [pod for pod in pods if pod.key in unschedulable and not pod.buffer and not pod.unsupported]
    if not waiting:
        return []
    start = turn * MAX_PODS_COMPARED % len(waiting)
    groups: dict[str, Pod] = {}
    for pod in (waiting[start:] + waiting[:start])[:MAX_PODS_COMPARED]:
        groups.setdefault(group_of(pod), pod)
    representatives = list(groups.values())
    first = turn % len(representatives)
    return (representatives[first:] + representatives[:first])[:MAX_GROUPS]


def probed_keys(claim: PlannedClaim, due: Iterable[OfferingKey]) -> frozenset[OfferingKey]:
    """Return the offerings that are due which the claim asks EC2 for, in the capacity type that it asks for first."""
    return frozenset(
        key
        for key in due
        if key.capacity_type == claim.offering.capacity_type
        and (not key.zone or claim.requirements.get(labels.ZONE).has(key.zone))
        and concerns_types(key, claim.instance_types)
    )


def one_for_each_offering(plan: Plan, due: Collection[OfferingKey]) -> list[PlannedClaim]:
    """Return the claims of the plan that probe: each asks for an offering that is due, and that none before it does."""
    claims: list[PlannedClaim] = []
    probed: set[OfferingKey] = set()
    for claim in plan.claims:
        keys = probed_keys(claim, due)
        if not keys <= probed:
            claims.append(claim)
            probed |= keys
    return claims
