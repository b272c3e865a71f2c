"""Gives the NodePools of disruption their Spot placement scores, so that replacements follow them as plans do."""

from __future__ import annotations

from dataclasses import replace

from tenon.disruption.cluster_model import ClusterModel
from tenon.scheduling.offerings.spot_scores import ScoresOf, scored, with_spot_scores


def with_scores(model: ClusterModel, scores_of: ScoresOf) -> ClusterModel:
    """Return the model with the scores of the NodePools that follow them."""
    return replace(
        model,
        problem=with_spot_scores(model.problem, scores_of),
        wave_pools={name: scored(pool, scores_of) for name, pool in model.wave_pools.items()},
    )
