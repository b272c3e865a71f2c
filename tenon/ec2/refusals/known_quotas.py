"""What the account's vCPU quotas leave, so that Tenon does not ask EC2 for what it is known to refuse.

Service Quotas says the limits, and EC2 the instances. EC2 also counts what it does not show, such as reservations that
no one uses, so it may refuse more than this says. It never refuses less, except for a quota that was raised a moment
ago, and the quotas are read again.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from tenon.apis import labels
from tenon.ec2.refusals.vcpu_quotas import STANDARD, quota_of
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.offerings import OfferingKey
from tenon.kube.pool_reasons import NoPlace, Obstacle, ObstacleKind
from tenon.kube.requirements import IN, Requirement, Requirements
from tenon.scheduling.model import InstanceType, Plan, PlannedClaim
from tenon.scheduling.zone_turns import zones_in_turn

IN_FLIGHT = timedelta(minutes=5)
"""How long a NodeClaim without an instance may be on its way to one when the instances are read."""
_ON_DEMAND, _SPOT = labels.ON_DEMAND, labels.SPOT
QUOTA_CODES: Mapping[str, tuple[str, str]] = {
    "L-1216C47A": (_ON_DEMAND, STANDARD),
    "L-DB2E81BA": (_ON_DEMAND, "G and VT"),
    "L-417A185B": (_ON_DEMAND, "P"),
    "L-74FC7D96": (_ON_DEMAND, "F"),
    "L-7295265B": (_ON_DEMAND, "X"),
    "L-1945791B": (_ON_DEMAND, "Inf"),
    "L-2C3B7624": (_ON_DEMAND, "Trn"),
    "L-6E869C2A": (_ON_DEMAND, "DL"),
    "L-43DA4232": (_ON_DEMAND, "High Memory"),
    "L-F7808C92": (_ON_DEMAND, "HPC"),
    "L-34B43A08": (_SPOT, STANDARD),
    "L-3819A6DF": (_SPOT, "G and VT"),
    "L-7212CCBC": (_SPOT, "P"),
    "L-C4BD4855": (_SPOT, "P5"),
    "L-88CF9481": (_SPOT, "F"),
    "L-E3A00192": (_SPOT, "X"),
    "L-B5D1601B": (_SPOT, "Inf"),
    "L-6B0D517C": (_SPOT, "Trn"),
    "L-85EED4F7": (_SPOT, "DL"),
}
"""Capacity type and name (`tenon.ec2.refusals.vcpu_quotas`) by Service Quotas' code."""
Bucket = tuple[str, str]
"""A capacity type and the name of a quota."""


@dataclass(frozen=True, slots=True)
class VcpuQuota:
    """One quota of the account, in vCPUs."""

    limit: int
    used: int

    @property
    def left(self) -> int:
        """How many vCPUs more EC2 may launch. It is negative if NodeClaims may use more than there are."""
        return self.limit - self.used


@dataclass(frozen=True, slots=True)
class KnownQuotas:
    """The quotas of the account when they were read."""

    read_at: datetime
    quotas: Mapping[Bucket, VcpuQuota] = field(default_factory=dict)
    vcpus: Mapping[str, int] = field(default_factory=dict)
    """By instance type."""


def known_quotas(
    limits: Mapping[str, float], running: Iterable[tuple[str, str]], vcpus: Mapping[str, int], read_at: datetime
) -> KnownQuotas:
    """Return the quotas that Service Quotas names.

    One of which more is used than its limit is left out, because EC2 granted more than Service Quotas says. If the
    quota was lowered instead, EC2 refuses.

    Args:
        limits: the limits by the code of the quota.
        running: instance type and capacity type of each instance of the account that counts.
        vcpus: the vCPUs by instance type.
        read_at: when the instances were read.
    """
    used: Counter[Bucket] = Counter()
    for instance_type, capacity_type in running:
        used[capacity_type, quota_of(instance_type, capacity_type)] += vcpus.get(instance_type, 0)
    quotas = {
        QUOTA_CODES[code]: VcpuQuota(int(limit), used[QUOTA_CODES[code]])
        for code, limit in limits.items()
        if code in QUOTA_CODES and used[QUOTA_CODES[code]] <= int(limit)
    }
    return KnownQuotas(read_at, quotas, vcpus)


def _launches_after(claim: ClaimRecord, read_at: datetime) -> bool:
    if claim.launched_at is not None:
        return claim.launched_at >= read_at
    return claim.created_at is not None and claim.created_at >= read_at - IN_FLIGHT


def with_claims(account_quotas: KnownQuotas, claims: Iterable[ClaimRecord]) -> KnownQuotas:
    """Return the quotas with what NodeClaims use that were not launched yet when the instances were read.

    A NodeClaim without an instance counts with its smallest type, in each capacity type that it may get, until it is
    `IN_FLIGHT` old: one that waits longer is refused for another reason, and takes nothing from other NodePools.
    Dedicated instances have quotas of their own.
    """
    used: Counter[Bucket] = Counter()
    for claim in claims:
        if claim.deleting or not _launches_after(claim, account_quotas.read_at):
            continue
        if _is_dedicated(Requirements.from_terms(claim.spec.get("requirements") or ())):
            continue
        launched_type = claim.labels.get(labels.INSTANCE_TYPE, "") if claim.provider_id else ""
        names = [launched_type] if launched_type else claim.instance_types
        smallest = min(
            (name for name in names if name in account_quotas.vcpus),
            key=lambda name: account_quotas.vcpus[name],
            default="",
        )
        if not smallest:
            continue
        for capacity_type in capacity_types(claim):
            used[capacity_type, quota_of(smallest, capacity_type)] += account_quotas.vcpus[smallest]
    return replace(
        account_quotas,
        quotas={
            bucket: replace(quota, used=quota.used + used[bucket]) if used[bucket] else quota
            for bucket, quota in account_quotas.quotas.items()
        },
    )


def capacity_types(claim: ClaimRecord) -> Collection[str]:
    """Return the capacity type of the claim's instance, or those that it may get."""
    if claim.provider_id and labels.CAPACITY_TYPE in claim.labels:
        return [claim.labels[labels.CAPACITY_TYPE]]
    terms = claim.spec.get("requirements") or ()
    stated_values = (term.get("values") or () for term in terms if term.get("key") == labels.CAPACITY_TYPE)
    return next((list(values) for values in stated_values if values), [_ON_DEMAND, _SPOT])


def ruled_out(account_quotas: KnownQuotas) -> frozenset[OfferingKey]:
    """Return what the quotas leave no room for: whole quotas, and instance types that are larger than the rest."""
    keys: set[OfferingKey] = set()
    sizes: dict[Bucket, list[tuple[int, str]]] = {}
    for name, vcpus in account_quotas.vcpus.items():
        for capacity_type in (_ON_DEMAND, _SPOT):
            bucket = capacity_type, quota_of(name, capacity_type)
            if bucket in account_quotas.quotas:
                sizes.setdefault(bucket, []).append((vcpus, name))
    for (capacity_type, quota), kinds in sizes.items():
        room = account_quotas.quotas[capacity_type, quota].left
        too_large = [name for vcpus, name in kinds if vcpus > room]
        if len(too_large) == len(kinds):
            keys.add(OfferingKey.of_quota(capacity_type, quota))
        else:
            keys |= {OfferingKey(capacity_type, name, "") for name in too_large}
    return frozenset(keys)


def within_quotas(
    plan: Plan, account_quotas: KnownQuotas, types_of: Callable[[PlannedClaim], Sequence[InstanceType]] = lambda _: ()
) -> tuple[Plan, frozenset[str]]:
    """Return the plan without the nodes that EC2 would refuse, and the keys of their pods.

    Each node counts with the cheapest type that it may get. If the quota of its capacity type has no room, it is bought
    as another one that it may have. The zones of a NodePool take turns.

    Args:
        plan: the plan.
        account_quotas: the quotas.
        types_of: the types that the NodePool of a claim can buy; none if its capacity type must stay.
    """
    planned: Counter[Bucket] = Counter()

    def takes(claim: PlannedClaim) -> bool:
        bucket, vcpus = _use_of(claim, account_quotas)
        if bucket in account_quotas.quotas and not _is_dedicated(claim.requirements):
            if account_quotas.quotas[bucket].left - planned[bucket] < vcpus:
                return False
            planned[bucket] += vcpus
        return True

    allowed: dict[int, PlannedClaim] = {}
    why: dict[str, NoPlace] = {}
    for position in zones_in_turn(plan.claims):
        claim = plan.claims[position]
        if takes(claim):
            allowed[position] = claim
        elif other := next(filter(takes, _as_other_capacity_types(claim, types_of(claim))), None):
            allowed[position] = other
        else:
            bucket, vcpus = _use_of(claim, account_quotas)
            obstacle = quota_obstacle(vcpus, bucket, account_quotas.quotas[bucket], planned[bucket])
            why.update(dict.fromkeys((pod.key for pod in claim.pods), NoPlace.in_pool(claim.pool, obstacle)))
    claims = tuple(allowed[position] for position in sorted(allowed))
    if len(claims) == len(plan.claims) and all(map(operator.is_, claims, plan.claims)):
        return plan, frozenset()
    return replace(plan, claims=claims, unschedulable={**plan.unschedulable, **why}), frozenset(why)


def _is_dedicated(requirements: Requirements) -> bool:
    """Whether nodes with these requirements are dedicated instances, which count against other quotas."""
    return not requirements.get(labels.TENANCY).has(labels.DEFAULT_TENANCY)


def _use_of(claim: PlannedClaim, account_quotas: KnownQuotas) -> tuple[Bucket, int]:
    """Return which quota the node of a claim counts against, and with how many vCPUs."""
    name, capacity_type = claim.offering.instance_type, claim.offering.capacity_type
    return (capacity_type, quota_of(name, capacity_type)), account_quotas.vcpus.get(name, 0)


def _as_other_capacity_types(claim: PlannedClaim, types: Iterable[InstanceType]) -> Iterator[PlannedClaim]:
    """The claim as spot or on-demand only, whichever it was not planned to get and may have, with what it then costs.

    One with ``minValues`` stays as it is, because fewer types might not be enough for these.
    """
    if any(claim.requirements[key].min_values for key in claim.requirements):
        return
    own_types = [kind for kind in types if kind.name in claim.instance_types]
    for capacity_type in (_SPOT, _ON_DEMAND):
        if capacity_type == claim.offering.capacity_type:
            continue
        requirements = claim.requirements.with_(Requirement.new(labels.CAPACITY_TYPE, IN, (capacity_type,)))
        sales = sorted(
            (offering.price, kind.name, offering.zone)
            for kind in own_types
            for offering in kind.offerings
            if offering.launchable and offering.meets(requirements)
        )
        if sales:
            price, name, zone = sales[0]
            yield replace(
                claim,
                requirements=requirements,
                instance_types=tuple(dict.fromkeys(name for _, name, _ in sales)),
                price=price,
                offering=OfferingKey(capacity_type, name, zone),
            )


def quota_obstacle(vcpus: int, bucket: Bucket, quota: VcpuQuota, planned: int = 0) -> Obstacle:
    """Say on a pod which quota has no room for its node, and what to do. ``planned``: vCPUs of nodes bought now."""
    capacity_type, name = bucket
    planned_part = f" and {planned} planned" if planned else ""
    return Obstacle(
        ObstacleKind.CAPACITY,
        f"its node needs {vcpus} vCPUs, and of the {quota.limit} vCPUs of the account's "
        f"{capacity_type} quota {name}, {quota.used} are used{planned_part}: ask AWS for a larger quota, or remove "
        "instances",
    )
