"""States the scheduling problem of a batch from the cluster as it is now, and has the engine solve it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from activities.cluster_view.interfaces import ClusterView
from activities.provisioning.account_commitments import CommitmentStore
from activities.provisioning.batching import Batcher
from activities.provisioning.plan_phases import plan_phase
from activities.provisioning.pool_offers import PoolOffers
from activities.provisioning.solving import Solved, Solver
from activities.provisioning.spot_scores import SpotScoreStore
from activities.tracing import spans
from activities.tracing.catalogue import Phase
from tenon.ec2.commitments.pools import with_commitments
from tenon.kube.pod import Pod
from tenon.provisioning.overlays import Overlaid
from tenon.provisioning.planning_policy import PlanPolicy
from tenon.provisioning.problem import problem_of, scheduling_pools
from tenon.provisioning.warm_nodes import with_warm_nodes
from tenon.scheduling.model import Plan, Pool, Problem
from tenon.scheduling.offerings.spot_scores import with_spot_scores


class LiveSolver:
    """Solves batches on the live cluster."""

    def __init__(
        self,
        view: ClusterView,
        batcher: Batcher,
        policy: PlanPolicy | None = None,
        solver: Solver | None = None,
        commitments: CommitmentStore | None = None,
        spot_scores: SpotScoreStore | None = None,
    ) -> None:
        """``policy``: the operator's settings that affect plans. ``solver``: runs the engine.

        ``commitments``: the Reserved Instances and Savings Plans that plans use first. ``spot_scores``: the Spot
        placement scores of NodePools that follow them.
        """
        self._view = view
        self._batcher = batcher
        self._policy = policy or PlanPolicy()
        self._solver = solver or Solver()
        self._commitments = commitments or CommitmentStore()
        self._spot_scores = spot_scores or SpotScoreStore()

    async def solve(self, waiting_pods: Sequence[Pod], offers: PoolOffers, part: float) -> tuple[Problem, Solved]:
        """The problem and its solution. ``part``: the fraction of a solve's time that the engine may take."""
        with plan_phase("problem", Phase.PROBLEM):
            snapshot, warm_nodes = self._view.snapshot(), self._view.warm_nodes()
            problem = await asyncio.to_thread(
                problem_of,
                snapshot,
                waiting_pods,
                offers.overlaid.pools_with_types,
                self._policy,
                self._batcher.reserved(),
                offers.next_attempts,
            )
            coverage = await asyncio.to_thread(self._commitments.coverage, list(self._view.all_claims()))
        problem = with_commitments(with_warm_nodes(problem, warm_nodes), coverage.remaining)
        problem = with_spot_scores(problem, self._spot_scores.scores_of)
        if offers.refused:
            problem = replace(problem, nodes=[node for node in problem.nodes if node.name not in offers.refused])
        with spans.phase(Phase.SOLVE):
            return problem, await self._solver.solve(problem, part)

    async def pools(self, overlaid: Overlaid) -> list[Pool]:
        """Return what the engine may buy of NodePools with these instance types."""
        return await asyncio.to_thread(scheduling_pools, self._view.snapshot(), overlaid.pools_with_types, self._policy)

    async def solve_again(self, problem: Problem, part: float) -> Plan:
        """The plan of a problem that is already stated, within this fraction of a solve's time."""
        with spans.phase(Phase.SOLVE):
            return (await self._solver.solve(problem, part)).plan
