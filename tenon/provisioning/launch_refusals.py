"""NodePools whose launches EC2 refuses: what a plan may still buy from them, and what their condition says.

A NodeClaim that waits for its launch acts as a probe for all NodePools that the same refusal holds back. While there is
one, plans make no more claims of the instance types that are held back, which would only wait as well: pods get other
types of the pool, or go to other pools that accept them. If there is none, a plan makes one, because otherwise Tenon
would never notice that EC2 accepts such launches again. If the refusal is about an EC2NodeClass, plans make it only
when the next probe is due. Until then, pools of other classes serve its pods.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from tenon.apis.common import Condition
from tenon.apis.conditions import get_condition, is_true, set_condition
from tenon.apis.nodepool import NODE_LAUNCH_HEALTHY, NodePool
from tenon.ec2.refusals.scopes import PROFILE_APPEARS_WITHIN, PROFILE_INVALID
from tenon.evolve import evolve
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.pool_reasons import NoPlace, Obstacle, ObstacleKind
from tenon.messages.provisioning import LaunchBreaker
from tenon.node.launch_breaker import holds_back, key_of, keys_of, sentence
from tenon.rollout.revisions import class_key
from tenon.scheduling.model import InstanceType, Plan, PlannedClaim

OpenBreakers = Mapping[str, LaunchBreaker]
"""The open launch breakers, by NodePool."""


def by_pool(open_breakers: OpenBreakers, pools: Iterable[NodePool]) -> dict[str, LaunchBreaker]:
    """Return the breaker that holds each pool back: its own, its EC2NodeClass's, or the account's.

    ``open_breakers``: by key (`tenon.node.launch_breaker.key_of`). Of several, one that holds back all types comes
    first. If each holds back some types, the first stands for all and has the types of all.
    """
    breakers_by_pool = {}
    for pool in pools if open_breakers else ():
        keys = keys_of(pool.metadata.name, class_key(pool))
        holding = [open_breakers[key] for key in keys if key in open_breakers]
        if holding:
            first = min(holding, key=lambda breaker: bool(breaker.instance_types))
            types = {name for breaker in holding for name in breaker.instance_types} if first.instance_types else set()
            breakers_by_pool[pool.metadata.name] = (
                evolve(first, instance_types=sorted(types)) if len(holding) > 1 else first
            )
    return breakers_by_pool


def is_refused(claim: ClaimRecord, breaker: LaunchBreaker, now: datetime) -> bool:
    """Whether EC2 has refused what the claim's EC2NodeClass asks for since the claim was created.

    ``breaker``: that of the class. Other pools may serve the claim's pods, so it does not keep them.
    """
    if breaker.reason == PROFILE_INVALID and now < breaker.opened_at + PROFILE_APPEARS_WITHIN:
        return False  # the claim's pods need not go to dearer nodes
    created = claim.created_at
    refused_before = created is not None and breaker.refused_at is not None and created <= breaker.refused_at
    return refused_before and not claim.provider_id and holds_back(breaker, claim.instance_types)


def next_probe(breakers: OpenBreakers, launching: Collection[str]) -> datetime | None:
    """Return when the next EC2NodeClass is probed that no NodeClaim waits for; None without such a class."""
    probing = {_subject(breakers[name]) for name in launching if name in breakers}
    due = (
        breaker.next_probe_at
        for breaker in breakers.values()
        if breaker.node_class and _subject(breaker) not in probing
    )
    return min(due, default=None)


def probed(breakers: OpenBreakers, launching: Collection[str], now: datetime) -> frozenset[str]:
    """Return the pools that are held back and for which plans make no probe.

    ``launching`` are the pools with a NodeClaim that waits for its instance.
    """
    by_subject: dict[str, list[str]] = {}
    for name, breaker in breakers.items():
        by_subject.setdefault(_subject(breaker), []).append(name)
    return frozenset(
        name
        for names in by_subject.values()
        for name in names
        if not set(launching).isdisjoint(names) or (breakers[name].node_class and now < breakers[name].next_probe_at)
    )


def pools_for_plans(pools: Sequence[NodePool], breakers: OpenBreakers, probed: Collection[str]) -> list[NodePool]:
    """Return the pools that plans may use: all except those that are held back as a whole and need no probe."""
    left_out = held_as_a_whole(breakers) & set(probed)
    return [pool for pool in pools if pool.metadata.name not in left_out]


def without_held_types(
    pools_with_types: Iterable[tuple[NodePool, Sequence[InstanceType]]], breakers: OpenBreakers, probed: Collection[str]
) -> list[tuple[NodePool, Sequence[InstanceType]]]:
    """Mark the types that a breaker of a pool holds back as unavailable in this pool, if it needs no probe."""
    return [
        (pool, _without(types, breakers[pool.metadata.name].instance_types))
        if pool.metadata.name in breakers and pool.metadata.name in probed
        else (pool, types)
        for pool, types in pools_with_types
    ]


def _subject(breaker: LaunchBreaker) -> str:
    return key_of(breaker.pool, breaker.node_class)


def held_as_a_whole(breakers: OpenBreakers) -> frozenset[str]:
    """Return the pools that launch nothing for now, whatever the instance type."""
    return frozenset(name for name, breaker in breakers.items() if not breaker.instance_types)


def _without(types: Sequence[InstanceType], held_names: Collection[str]) -> Sequence[InstanceType]:
    names = frozenset(held_names)
    return (
        [_unavailable(instance_type) if instance_type.name in names else instance_type for instance_type in types]
        if names
        else types
    )


def _unavailable(instance_type: InstanceType) -> InstanceType:
    return replace(
        instance_type, offerings=tuple(replace(offering, available=False) for offering in instance_type.offerings)
    )


def only_probes(plan: Plan, breakers: OpenBreakers, turn: int = 0) -> Plan:
    """Keep at most one NodeClaim of what each refusal holds back. The pods of the other such claims wait.

    ``turn`` is a number that grows with each plan, so that not always the same claim probes.
    """
    held_ordinals: dict[str, list[int]] = {}
    for number, claim in enumerate(plan.claims):
        breaker = breakers.get(claim.pool)
        if breaker is not None and holds_back(breaker, claim.instance_types):
            held_ordinals.setdefault(_subject(breaker), []).append(number)
    probes = {numbers[turn % len(numbers)] for numbers in held_ordinals.values()}
    waits = {number for numbers in held_ordinals.values() for number in numbers} - probes
    kept_claims: list[PlannedClaim] = []
    waiting: dict[str, NoPlace] = {}
    for number, claim in enumerate(plan.claims):
        if number in waits:
            obstacle = Obstacle(ObstacleKind.LAUNCHES, sentence(breakers[claim.pool]))
            waiting.update(dict.fromkeys((pod.key for pod in claim.pods), NoPlace.in_pool(claim.pool, obstacle)))
            continue
        kept_claims.append(claim)
    if not waiting:
        return plan
    return replace(plan, claims=tuple(kept_claims), unschedulable={**plan.unschedulable, **waiting})


def with_launch_health(
    conditions: Sequence[Condition], breaker: LaunchBreaker | None, *, now: datetime, observed_generation: int | None
) -> list[Condition]:
    """Set the condition that says whether EC2 refuses the pool's launches.

    A pool that EC2 never refused does not get it.
    """
    if breaker is None:
        if get_condition(conditions, NODE_LAUNCH_HEALTHY) is None or is_true(conditions, NODE_LAUNCH_HEALTHY):
            return list(conditions)
        return set_condition(conditions, NODE_LAUNCH_HEALTHY, "True", now=now, observed_generation=observed_generation)
    return set_condition(
        conditions,
        NODE_LAUNCH_HEALTHY,
        "False",
        now=now,
        reason=breaker.reason,
        message=sentence(breaker)[:1000],
        observed_generation=observed_generation,
    )
