"""The policy Balanced: a move must save at least half as large a share of its pool's cost as it disrupts of the pool.

A move that saves 1 % of the pool's money may disrupt 2 % of the pool (DIS-42). It disrupts the rescheduling cost of its
nodes (DIS-22): each node counts 1, and each of its pods about 1. How long the nodes still live does not count (DIS-21).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from math import inf

from tenon.disruption.cluster_model import ClusterModel
from tenon.disruption.decision import BalancedVerdict
from tenon.disruption.nodes import NodeDetail
from tenon.disruption.situation import Situation

LEAST_SCORE = 0.5
"""The share of savings, divided by the share of disruption, from which a move is approved."""


def score(saving: float, disruption: float, pool_cost: float, pool_disruption: float) -> float:
    """Return the share of savings divided by the share of disruption (DIS-42)."""
    if saving <= 0:
        return 0.0
    if disruption <= 0:
        return inf
    if pool_cost <= 0 or pool_disruption <= 0:
        return 0.0
    return (saving / pool_cost) / (disruption / pool_disruption)


class Balance:
    """The totals of every NodePool with the policy Balanced, and what a move means to them (DIS-43)."""

    def __init__(self, situation: Situation, model: ClusterModel) -> None:
        """Add up all nodes of each pool, whether or not they are candidates."""
        self._pool_of = {node.claim: node.pool for node in situation.nodes}
        self._cost: dict[str, float] = defaultdict(float)
        self._disruption: dict[str, float] = defaultdict(float)
        for claim, pool in self._pool_of.items():
            policy = situation.policies.get(pool)
            if policy is not None and policy.consolidation_policy == "Balanced" and claim in model.details:
                self._cost[pool] += model.details[claim].price
                self._disruption[pool] += model.details[claim].cost

        self._refused: dict[tuple[str, ...], Mapping[str, float]] = {}

    def approves(self, leaving: Mapping[str, NodeDetail], saving: float) -> bool:
        """Return whether every Balanced pool approves a move, and remember a refusal."""
        if not self._cost:
            return True
        scores = self.scores(leaving, saving)
        if approved(scores.values()):
            return True
        if all(claim in self._pool_of for claim in leaving):  # not a node that is only planned
            self._refused[tuple(sorted(leaving))] = scores
        return False

    def refuses(self, claim: str) -> bool:
        """Return whether it refused to move the pods of this node alone."""
        return (claim,) in self._refused

    def verdicts(self, moves: Iterable[tuple[Mapping[str, NodeDetail], float]]) -> tuple[BalancedVerdict, ...]:
        """Return what each pool said about these moves, which are made, and about those that were refused."""
        moves_by_claims = {tuple(sorted(leaving)): (leaving, saving) for leaving, saving in moves}
        refused = {claims: scores for claims, scores in self._refused.items() if claims not in moves_by_claims}
        return (
            *(
                BalancedVerdict(pool, claims, pool_score, approved=False)
                for claims, scores in refused.items()
                for pool, pool_score in scores.items()
            ),
            *(verdict for claims, move in moves_by_claims.items() for verdict in self._made(claims, *move)),
        )

    def _made(
        self, claims: tuple[str, ...], leaving: Mapping[str, NodeDetail], saving: float
    ) -> Iterator[BalancedVerdict]:
        scores = self.scores(leaving, saving)
        for pool, pool_saving, disruption in self._parts(leaving, saving):
            whole, all_pods = self._cost[pool], self._disruption[pool]
            yield BalancedVerdict(
                pool,
                claims,
                scores[pool],
                approved=True,
                savings=pool_saving / whole if whole > 0 else 0.0,
                disruption=disruption / all_pods if all_pods > 0 else 0.0,
            )

    def scores(self, leaving: Mapping[str, NodeDetail], saving: float) -> dict[str, float]:
        """Return the score for each Balanced pool of a move, by pool."""
        return {
            pool: score(pool_saving, disruption, self._cost[pool], self._disruption[pool])
            for pool, pool_saving, disruption in self._parts(leaving, saving)
        }

    def _parts(self, leaving: Mapping[str, NodeDetail], saving: float) -> Iterator[tuple[str, float, float]]:
        """Yield each Balanced pool of a move, what the move saves there, and what it disrupts there.

        If a move takes nodes of several pools, each gets the share of the savings that its nodes have in the cost
        (DIS-44).
        """
        cost: dict[str, float] = defaultdict(float)
        disruption: dict[str, float] = defaultdict(float)
        for claim, detail in leaving.items():
            pool = self._pool_of.get(claim, "")
            cost[pool] += detail.price
            disruption[pool] += detail.cost
        whole = sum(cost.values())
        for pool in sorted(cost):
            if pool in self._cost:
                yield pool, saving * cost[pool] / whole if whole > 0 else 0.0, disruption[pool]


def approved(scores: Iterable[float]) -> bool:
    """Whether every Balanced pool approves the move (DIS-44)."""
    return all(score >= LEAST_SCORE for score in scores)
