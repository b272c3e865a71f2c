"""Spot placement scores: how likely EC2 is to have the spot capacity that a NodePool may need in a zone, from 1 to 10.

AWS scores a list of instance types and a number of vCPUs, which together are a configuration. It allows few new
configurations a day. So a NodePool has one, of all types that it may buy on spot capacity, and of its vCPUs rounded up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tenon.apis import labels
from tenon.resources import CPU
from tenon.scheduling.model import Pool, Problem

LEAST_TYPES = 3
"""AWS gives fewer types always a low score."""
MOST_TYPES = 1000
"""AWS takes no more."""
LEAST_VCPUS = 32
"""AWS scores a few vCPUs high in every zone."""

ScoresOf = Callable[[Pool], Mapping[str, int]]
"""Returns the scores of a NodePool by zone ID; empty if they are not known."""


def no_scores(_: Pool) -> Mapping[str, int]:
    """No score is known."""
    return {}


@dataclass(frozen=True, slots=True)
class Configuration:
    """What AWS scores."""

    instance_types: tuple[str, ...]
    """Their names, sorted."""
    vcpus: int


def configuration_of(pool: Pool) -> Configuration | None:
    """Return what AWS should score for a NodePool; None if it does not follow scores, or AWS cannot score it."""
    names = _spot_types(pool)
    if pool.goals is None or pool.goals.placement_scores is None or len(names) < LEAST_TYPES:
        return None
    vcpus = pool.usage.get(CPU, 0) // 1000
    return Configuration(tuple(names[:MOST_TYPES]), max(LEAST_VCPUS, 1 << max(0, vcpus - 1).bit_length()))


def with_spot_scores(problem: Problem, scores_of: ScoresOf) -> Problem:
    """Return the problem with the scores of the NodePools that follow them."""
    if not any(map(_follows, problem.pools)):
        return problem
    return replace(problem, pools=[scored(pool, scores_of) for pool in problem.pools])


def scored(pool: Pool, scores_of: ScoresOf) -> Pool:
    """Return the pool with its scores if it follows them."""
    return replace(pool, spot_scores=scores_of(pool)) if _follows(pool) else pool


def zone_scores(pool: Pool) -> dict[str, int]:
    """Return the scores of a NodePool by zone.

    AWS scores zone IDs, because accounts name zones differently. Who asks what a score would change names zones.
    """
    if not pool.spot_scores:
        return {}
    zones = {offering.zone: offering.zone_id for kind in pool.instance_types for offering in kind.offerings}
    scores = {zone: pool.spot_scores.get(zone_id, pool.spot_scores.get(zone)) for zone, zone_id in zones.items()}
    return {zone: score for zone, score in sorted(scores.items()) if score is not None}


def scores_text(pool: Pool) -> str:
    """Say the scores of a NodePool, or why it has none."""
    if scores := zone_scores(pool):
        return ", ".join(f"{zone} {score}" for zone, score in scores.items())
    count = len(_spot_types(pool))
    if count < LEAST_TYPES:
        return f"AWS needs {LEAST_TYPES} instance types to score zones, and spot capacity of {count} is allowed"
    return "no scores are known"


def _follows(pool: Pool) -> bool:
    return pool.goals is not None and pool.goals.placement_scores is not None


def _spot_types(pool: Pool) -> list[str]:
    if not pool.requirements.get(labels.CAPACITY_TYPE).has(labels.SPOT):
        return []
    return sorted(
        kind.name for kind in pool.instance_types if any(o.capacity_type == labels.SPOT for o in kind.offerings)
    )
