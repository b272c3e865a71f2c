"""How many nodes of a NodePool launch at once while it is not known whether EC2 has capacity for them.

Six hundred NodeClaims that EC2 refuses are written, launched, ended and deleted for nothing, and so again for each
capacity type and after each pause. So a NodePool launches `START` nodes of scarce types at once, and one more for each
that EC2 launched: twice as many in each round. The others wait for their turn. A plan counts only the types that are
scarce, so other nodes of the NodePool launch as always.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tenon.apis import labels
from tenon.ec2.refusals.known_quotas import capacity_types
from tenon.ec2.refusals.vcpu_quotas import STANDARD, quota_of
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.pool_reasons import NoPlace, Obstacle, ObstacleKind
from tenon.scheduling.model import Plan, PlannedClaim
from tenon.scheduling.zone_turns import zones_in_turn

START = 20
"""How many nodes launch at once before EC2 has launched any of them."""
PROVEN_AFTER = timedelta(seconds=5)
"""How old a launch is when it counts. An instance that cannot use its disk ends within seconds."""
PROVEN_FOR = timedelta(minutes=10)
"""How long a launch shows that EC2 has capacity for more nodes of such types, unless it refuses one later."""


@dataclass(frozen=True, slots=True)
class Storm:
    """The launches of a NodePool in one capacity type that EC2 had no capacity for."""

    last: datetime
    """When the last of them was counted."""
    instance_types: frozenset[str]
    """The types that they asked for."""


def refused_in_storm(before: Storm | None, instance_types: Iterable[str], now: datetime) -> Storm:
    """Return the storm after one more launch of these types was refused."""
    types = frozenset(instance_types)
    return Storm(now, types if before is None else types | before.instance_types)


def is_scarce(instance_types: Collection[str], storm: Storm | None) -> bool:
    """Whether EC2 may lack capacity for nodes of these types.

    EC2 refused some of them a short time ago, or all are of families apart, such as those with accelerators, of which
    it rarely has hundreds at once.
    """
    if storm is not None and not storm.instance_types.isdisjoint(instance_types):
        return True
    quotas = {quota_of(name, labels.ON_DEMAND) for name in instance_types}
    return bool(quotas) and quotas.isdisjoint({STANDARD, ""})


def free_launches(
    claims: Iterable[ClaimRecord], pool: str, capacity_type: str, storm: Storm | None, now: datetime
) -> int:
    """Return how many more nodes of scarce types a NodePool may launch in one capacity type now.

    Args:
        claims: all NodeClaims, also those that are being deleted.
        pool: the NodePool.
        capacity_type: what its next nodes ask for first.
        storm: what EC2 refused of that.
        now: the current time.
    """
    since = storm.last if storm is not None else now - PROVEN_FOR
    launching = launched = 0
    for claim in claims:
        if claim.pool != pool:
            continue
        if not claim.provider_id:
            launching += capacity_type in capacity_types(claim) and is_scarce(claim.instance_types, storm)
        elif (at := claim.launched_at) is not None and since < at <= now - PROVEN_AFTER:
            launched += claim.labels.get(labels.CAPACITY_TYPE) == capacity_type and is_scarce(
                [claim.labels.get(labels.INSTANCE_TYPE, "")], storm
            )
    return max(0, START + launched - launching)


def within_budget(
    plan: Plan, scarce: Callable[[PlannedClaim], bool], free: Callable[[str, str], int]
) -> tuple[Plan, dict[str, tuple[str, str]]]:
    """Return the plan without the nodes that must wait, and for each of their pods what it waits for.

    Args:
        plan: the plan.
        scarce: whether a planned node counts.
        free: how many nodes a NodePool may launch in a capacity type.

    Returns:
        The plan, and by the key of each pod the NodePool and the capacity type.
    """
    free_by_subject: dict[tuple[str, str], int] = {}
    kept_claims: dict[int, PlannedClaim] = {}
    waits: dict[str, tuple[str, str]] = {}
    for position in zones_in_turn(plan.claims):
        claim = plan.claims[position]
        subject = claim.pool, claim.offering.capacity_type
        if scarce(claim):
            room = free_by_subject[subject] if subject in free_by_subject else free(*subject)
            free_by_subject[subject] = room - 1
            if room <= 0:
                waits.update((pod.key, subject) for pod in claim.pods)
                continue
        kept_claims[position] = claim
    if not waits:
        return plan, waits
    reasons = {subject: NoPlace.in_pool(subject[0], turn_obstacle(subject[1])) for subject in set(waits.values())}
    why = {key: reasons[subject] for key, subject in waits.items()}
    claims = tuple(kept_claims[position] for position in sorted(kept_claims))
    return replace(plan, claims=claims, unschedulable={**plan.unschedulable, **why}), waits


def turn_obstacle(capacity_type: str) -> Obstacle:
    """Say on a pod why its node is not launched yet."""
    return Obstacle(
        ObstacleKind.CAPACITY,
        f"it launches {START} nodes of scarce {capacity_type} types at once, and one more for each that "
        "EC2 launches; the node of this pod follows",
    )
