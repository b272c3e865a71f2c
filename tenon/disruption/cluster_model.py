"""A model of the cluster, in which methods that move pods simulate where the pods would go."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from tenon.disruption.nodes import NodeDetail
from tenon.resources import NODES
from tenon.scheduling.existing.cluster_facts import ClusterFacts
from tenon.scheduling.model import Pool, Problem
from tenon.scheduling.offerings.type_table import TypeTables


@dataclass(frozen=True, slots=True)
class ClusterModel:
    """The cluster, as simulations see it. Expensive to build."""

    problem: Problem
    """All nodes, and the pools with their instance types and prices. It has no pods to place."""
    details: Mapping[str, NodeDetail]
    """By NodeClaim name. Those without an instance, or whose Node is gone, are missing."""
    static_pools: Mapping[str, Pool] = field(default_factory=dict)
    """By name, the static NodePools, from which plans do not buy."""
    wave_pools: Mapping[str, Pool] = field(default_factory=dict)
    """By name, the NodePools of which a rollout replaces nodes now, in the version that those nodes get."""
    tables: TypeTables = field(default_factory=TypeTables, compare=False, repr=False)
    """The index of the instance types, which all simulations share."""
    facts: ClusterFacts = field(default_factory=ClusterFacts, compare=False, repr=False)
    """What all simulations know of the nodes and NodePools."""
    launching: frozenset[str] = field(init=False, compare=False)
    """The NodePools of which the instance types are known (DIS-12)."""

    def __post_init__(self) -> None:
        """Remember which NodePools launch nodes, because each node asks."""
        object.__setattr__(
            self, "launching", frozenset(pool.name for pool in self.problem.pools if pool.instance_types)
        )

    def version_for(self, pool: str) -> Mapping[str, Pool]:
        """Return the NodePool in the version that the nodes of a wave get, by name; empty if it is the usual one."""
        wave_pool = self.wave_pools.get(pool)
        return {pool: wave_pool} if wave_pool is not None else {}


def model_of(
    problem: Problem,
    details: Mapping[str, NodeDetail],
    static: Collection[str],
    refused: Collection[str] = (),
    tables: TypeTables | None = None,
) -> ClusterModel:
    """Return the model of a problem.

    Args:
        problem: the cluster, without pods to place.
        details: by NodeClaim, what is known of its node.
        static: the names of the static NodePools.
        refused: the names of NodePools whose launches EC2 refuses, so that a move must not depend on one.
        tables: those of an earlier model, which are used again while the instance types are the same objects.
    """
    pools = [at_limit(pool) if pool.name in refused else pool for pool in problem.pools]
    return ClusterModel(
        problem=replace(problem, pools=[pool for pool in pools if pool.name not in static]),
        details=details,
        static_pools={pool.name: pool for pool in pools if pool.name in static},
        tables=TypeTables(tables),
    )


def details_only(details: Mapping[str, NodeDetail]) -> ClusterModel:
    """Return a model that knows no more than the details of nodes, for questions that place no pods."""
    return ClusterModel(Problem(pods=(), pools=()), details)


def at_limit(pool: Pool) -> Pool:
    """Return the pool at its limit. It launches nothing, but its zones still count for spread constraints."""
    return replace(pool, limits={NODES: 0}, usage={})
