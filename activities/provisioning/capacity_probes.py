"""Plans the NodeClaims that ask EC2 whether it has capacity again (`tenon.provisioning.capacity_probes`)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from activities.cluster_view.interfaces import ClusterView, Types
from activities.provisioning.launch_refusals import LaunchRefusals
from activities.provisioning.live_solving import LiveSolver
from activities.provisioning.offerings import instance_types_by_pool
from activities.provisioning.pool_offers import PoolOffers
from tenon.ec2.refusals.unavailable import UnavailableOfferings
from tenon.kube.offerings import OfferingKey
from tenon.kube.pod import Pod
from tenon.node.launch_breaker import holds_back
from tenon.provisioning.capacity_probes import one_for_each_offering, pods_to_probe_for, probed_keys
from tenon.provisioning.readiness import usable_pools
from tenon.provisioning.shortage_waits import without_dear_types
from tenon.scheduling.after_plan import pools_after, problem_after
from tenon.scheduling.explanation.type_choice import AttemptedAt, TypeChoiceExplainer
from tenon.scheduling.model import Plan, PlannedClaim, Problem


@dataclass(frozen=True, slots=True)
class Probes:
    """NodeClaims that may ask for offerings that plans avoid."""

    claims: tuple[PlannedClaim, ...] = ()
    due: frozenset[OfferingKey] = frozenset()
    """The offerings that they need not avoid."""
    prices: TypeChoiceExplainer | None = None
    """Explains them."""

    def include(self, claim: PlannedClaim) -> bool:
        """Whether a claim of a plan is one of them. They are compared by identity, because claims have no hash."""
        return any(claim is probe for probe in self.claims)

    def keys(self, claims: Sequence[PlannedClaim]) -> frozenset[OfferingKey]:
        """The offerings that are due and that those of the claims ask for that are probes."""
        return frozenset(key for claim in claims if self.include(claim) for key in probed_keys(claim, self.due))


@dataclass(frozen=True, slots=True)
class CapacityProbes:
    """Makes probes for the pods of a plan that have no place."""

    view: ClusterView
    types: Types
    refusals: LaunchRefusals
    solver: LiveSolver
    no_probes: Probes = field(default_factory=Probes)

    async def for_plan(
        self,
        plan: Plan,
        pods: Sequence[Pod],
        problem: Problem,
        offers: PoolOffers,
        attempted_at: AttemptedAt,
        turn: int,
        part: float,
    ) -> Probes:
        """Return the probes that are due.

        Args:
            plan: the plan.
            pods: its pods.
            problem: what it solves.
            offers: the NodePools that it may use. What their launch breakers hold back is not probed here.
            attempted_at: when Tenon asks EC2 again for an offering that it refused.
            turn: a number that grows with each plan.
            part: the fraction of a solve's time that the engine may take.
        """
        due = self.refusals.due() if plan.unschedulable else frozenset()
        sample = pods_to_probe_for(pods, plan.unschedulable, turn) if due else []
        if not sample:
            return self.no_probes
        unavailable = UnavailableOfferings(offers.next_attempts.keys() - due)
        usable = usable_pools(offers.pools, self.view.node_class, self.view)  # a class may have gone since the solve
        overlaid = await instance_types_by_pool(self.view, self.types, usable, unavailable)
        pools = pools_after(await self.solver.pools(overlaid), plan.claims)
        after = await asyncio.to_thread(problem_after, problem, plan)
        probing = replace(after, pods=sample, pools=pools)
        types_by_pool = {pool.metadata.name: types for pool, types in overlaid.pools_with_types}
        prices = TypeChoiceExplainer(probing, types_by_pool, attempted_at)
        by_name = {pool.metadata.name: pool for pool in offers.pools}
        probe_plan = without_dear_types(await self.solver.solve_again(probing, part), by_name, prices)
        breakers = offers.breakers
        claims = [
            claim
            for claim in one_for_each_offering(probe_plan, due)
            if claim.pool not in breakers or not holds_back(breakers[claim.pool], claim.instance_types)
        ]
        return Probes(tuple(claims), due, prices)
