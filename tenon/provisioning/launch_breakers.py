"""NodePools whose launches EC2 refuses: what a plan may still buy from them, and what their condition says.

A NodeClaim of such a pool that waits for its launch acts as a probe. While there is one, plans make no more claims,
which would only wait as well, and pods go to other pools that accept them. If there is none, a plan makes one:
otherwise Tenon would never notice that EC2 has capacity again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from tenon.apis.common import Condition
from tenon.apis.conditions import get_condition, is_true, set_condition
from tenon.apis.nodepool import NODE_LAUNCH_HEALTHY, NodePool
from tenon.lifecycle.breaker import sentence
from tenon.lifecycle.messages.provisioning import LaunchBreaker
from tenon.scheduling.model import Plan

OpenBreakers = Mapping[str, LaunchBreaker]
"""The open launch breakers, by NodePool."""


def pools_for_plans(pools: Sequence[NodePool], breakers: OpenBreakers, launching: Collection[str]) -> list[NodePool]:
    """Return the pools that plans may use: all except those that are held back and already have a probe.

    ``launching`` are the pools with a NodeClaim that waits for its instance.
    """
    return [pool for pool in pools if pool.metadata.name not in breakers or pool.metadata.name not in launching]


def only_probes(plan: Plan, breakers: OpenBreakers) -> Plan:
    """Keep at most one NodeClaim for each pool that is held back. The pods of its other claims wait."""
    probes: set[str] = set()
    kept, waiting = [], {}
    for claim in plan.claims:
        if claim.pool in probes:
            why = f"NodePool {claim.pool}: {sentence(breakers[claim.pool])}"
            waiting.update({pod.key: why for pod in claim.pods})
            continue
        if claim.pool in breakers:
            probes.add(claim.pool)
        kept.append(claim)
    if not waiting:
        return plan
    return replace(plan, claims=tuple(kept), unschedulable={**plan.unschedulable, **waiting})


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
