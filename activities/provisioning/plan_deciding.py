"""Decides about one batch: which NodeClaims its pods need, which of them wait, and why the other pods have no place.

The engine solves the batch. Afterwards nodes are held back that no one should buy now: for pods that earlier nodes did
not get, at prices far above the usual, of NodePools that EC2 refuses, and beyond quotas.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from activities import loggers, metrics
from activities.cluster_view.interfaces import ClusterView, Types
from activities.provisioning.batching import Batcher
from activities.provisioning.capacity_probes import CapacityProbes, Probes
from activities.provisioning.live_solving import LiveSolver
from activities.provisioning.pause_reporting import PauseReporter
from activities.provisioning.plan_decision import PlanDecision
from activities.provisioning.plan_phases import plan_phase
from activities.provisioning.pool_offers import PoolOffers, pool_offers
from activities.provisioning.solving import Solved
from activities.provisioning.tried_launches import TriedLaunches
from activities.tracing import spans
from activities.tracing.catalogue import Phase
from tenon.ec2.refusals.known_quotas import within_quotas
from tenon.ec2.refusals.unavailable import next_attempt_of
from tenon.kube.offerings import OfferingKey
from tenon.kube.pod import Pod
from tenon.kube.pool_reasons import Obstacle, ObstacleKind
from tenon.messages.explanation import Explanation
from tenon.messages.provisioning import ShortageWait
from tenon.node.launch_breaker import sentence
from tenon.provisioning.launch_budget import within_budget
from tenon.provisioning.launch_refusals import next_probe, only_probes
from tenon.provisioning.problem import with_pool_reasons
from tenon.provisioning.purchase import explanations
from tenon.provisioning.refused_offerings import refused_for, with_refused_offerings
from tenon.provisioning.shortage_waits import dear_nodes, elsewhere, held_back, without_dear_types
from tenon.provisioning.types_without_image import with_types_without_image
from tenon.scheduling.explanation.type_choice import AttemptedAt, TypeChoiceExplainer
from tenon.scheduling.model import InstanceType, Plan, Problem
from tenon.scheduling.pods.local_disks import lost_disks

log = loggers.PROVISIONER

RETRY_SECONDS = 0.5
"""The fraction of a solve's time limit for a second solve of a batch. Both must fit in the activity's timeout."""


@dataclass(frozen=True, slots=True)
class _Solution:
    """The batch as the engine solved it."""

    pods: Sequence[Pod]
    """The pods that it placed, or found no place for."""
    problem: Problem
    solved: Solved
    paused_pods: Sequence[Pod]
    """Pods that did not get the nodes that were bought for them, and so get no more for now."""
    paused: Mapping[str, str]
    """By the key of these pods: why."""
    next_attempts: Mapping[OfferingKey, datetime]
    """The offerings that plans avoid, each with the time from which a NodeClaim may ask EC2 for it again."""

    @property
    def attempted_at(self) -> AttemptedAt:
        """When an offering that plans avoid is asked for again."""
        return partial(next_attempt_of, self.next_attempts)


class PlanDecider:
    """Decides about batches on a live cluster."""

    def __init__(
        self,
        view: ClusterView,
        types: Types,
        batcher: Batcher,
        tried_launches: TriedLaunches,
        solver: LiveSolver,
        pauses: PauseReporter,
        now: Callable[[], datetime],
    ) -> None:
        """``tried_launches``: of earlier plans. ``pauses``: says why pods wait."""
        self._view = view
        self._types = types
        self._batcher = batcher
        self._refusals = batcher.refusals
        self._tried_launches = tried_launches
        self._probes = CapacityProbes(view, types, batcher.refusals, solver)
        self._solver = solver
        self._pauses = pauses
        self._now = now

    async def decide(self, batch: int, part: float = 1.0) -> PlanDecision | None:
        """Plan the pods that need a decision, within this fraction of a solve's time; None if no pod does."""
        fingerprint = self._view.fingerprint()  # before anything is read, so that later changes count as new
        undecided = self._batcher.undecided()
        if not undecided:
            return None
        self._refusals.no_capacity(self._tried_launches.count(undecided, self._refusals.unavailable()))
        offers = await pool_offers(self._view, self._types, self._refusals, self._now())
        undecided = self._batcher.undecided()  # again, because EC2 may have taken seconds and pods may have gone
        if not undecided:
            return None
        solution = await self._solve(_provisionable(undecided), offers, part)
        problem = solution.problem
        winners = TypeChoiceExplainer(problem, offers.types_by_pool, solution.attempted_at)
        solved, waits = await self._wait_for_cheaper(solution, offers, winners, part)
        reasoned, lacked_quotas = await self._with_reasons(solved.plan, solution, waits, offers)
        plan, probes, postponed = await self._launchable(reasoned, solution, offers, batch, part)
        metrics.SCHEDULING_SECONDS.labels("provisioner").observe(solved.seconds)
        metrics.PLAN_PHASE_SECONDS.labels("solve").observe(solved.seconds)
        with plan_phase("explain", Phase.EXPLAIN):
            why, usual_prices = await asyncio.to_thread(_explained, plan, winners, probes)
        engine_plan = solution.solved.plan
        return PlanDecision(
            plan=plan,
            all_pods=[*solution.pods, *solution.paused_pods],
            failed=solved.failed,
            overlaid=offers.overlaid,
            ready=frozenset(node.name for node in problem.nodes if node.initialized),
            fingerprint=fingerprint,
            took=solved.seconds,
            problem=problem,
            as_solved=plan.claims == engine_plan.claims and plan.placements == engine_plan.placements,
            in_flight=frozenset(node.name for node in problem.nodes if node.requirements is not None),
            explanations=why,
            usual_prices=usual_prices,
            waits=waits,
            paused=solution.paused,
            doubts=lost_disks(problem),
            without_types={pool.name: pool.why_lacking for pool in problem.pools if pool.lacking},
            refused=offers.refused,
            next_probe=next_probe(offers.breakers, offers.launching),
            probes=probes,
            postponed=postponed,
            lacked_quotas=lacked_quotas,
            next_attempts=offers.next_attempts,
        )

    async def _solve(self, pods: Sequence[Pod], offers: PoolOffers, part: float) -> _Solution:
        """Have the engine place the pods and the room of buffers. Pods that did not get their last nodes must wait."""
        waiting_pods = [*pods, *self._batcher.buffers.pods()]
        problem, solved = await self._solver.solve(waiting_pods, offers, part)
        pauses = self._batcher.count_unused_nodes(pod for claim in solved.plan.claims for pod in claim.pods)
        paused_pods = [pod for pod in waiting_pods if pod.key in pauses]
        if paused_pods:  # rare, so the plan for the others is made from the start
            waiting_pods = [pod for pod in waiting_pods if pod.key not in pauses]
            rest = part * RETRY_SECONDS
            problem, solved = await self._solver.solve(waiting_pods, offers, rest)
        paused = await self._pauses.sentences(paused_pods, pauses)
        return _Solution(waiting_pods, problem, solved, paused_pods, paused, offers.next_attempts)

    async def _with_reasons(
        self, plan: Plan, solution: _Solution, waits: Mapping[str, ShortageWait], offers: PoolOffers
    ) -> tuple[Plan, frozenset[OfferingKey]]:
        """The plan with all reasons why pods have no place, and the offerings that they lack a quota for."""
        pools, types_by_pool = solution.problem.pools, offers.types_by_pool
        pods = [pod for pod in solution.pods if pod.key not in waits]
        plan = await asyncio.to_thread(with_refused_offerings, plan, pods, pools, types_by_pool, solution.next_attempts)
        plan = await asyncio.to_thread(with_types_without_image, plan, pods, pools, types_by_pool)
        lacked_quotas = await asyncio.to_thread(self._lacked_quotas, plan, pods, solution.problem, types_by_pool)
        left_out = {name: Obstacle(ObstacleKind.LAUNCHES, sentence(offers.breakers[name])) for name in offers.closed}
        return with_pool_reasons(plan, self._view, solution.pods, left_out, self._view), lacked_quotas

    async def _launchable(
        self, plan: Plan, solution: _Solution, offers: PoolOffers, batch: int, part: float
    ) -> tuple[Plan, Probes, Mapping[str, tuple[str, str]]]:
        """The plan with the probes of what EC2 refused, and without the nodes that must wait for others.

        Also the probes, and, by the key of their pods, what the latter wait for.
        """
        plan = only_probes(plan, offers.breakers, batch)
        rest = part * RETRY_SECONDS
        probes = await self._probes.for_plan(
            plan, solution.pods, solution.problem, offers, solution.attempted_at, batch, rest
        )
        plan, postponed = self._within_budgets(_with_probes(plan, probes), probes, offers.types_by_pool)
        return plan, probes, postponed

    def _lacked_quotas(
        self, plan: Plan, pods: Sequence[Pod], problem: Problem, types_by_pool: Mapping[str, Sequence[InstanceType]]
    ) -> frozenset[OfferingKey]:
        """The offerings for which quotas have no room, and that the pods without a place could use."""
        unavailable = self._refusals.unavailable_for_quotas()
        keys = refused_for(plan.unschedulable, pods, problem.pools, types_by_pool, unavailable)
        if keys:
            self._refusals.quota_lacks()
        return keys

    def _within_budgets(
        self, plan: Plan, probes: Probes, types_by_pool: Mapping[str, Sequence[InstanceType]]
    ) -> tuple[Plan, Mapping[str, tuple[str, str]]]:
        """The plan without nodes that must wait for others of their NodePool, or that a quota has no room for.

        Also, by the key of their pods, what the former wait for.
        """
        claims = list(self._view.all_claims())
        if (quotas := self._refusals.quotas(claims)) is not None:  # first, because a pod that it stops waits for longer
            plan, over_quota = within_quotas(
                plan, quotas, lambda claim: () if probes.include(claim) else types_by_pool.get(claim.pool, ())
            )
            if over_quota:
                self._refusals.quota_lacks()
        plan, postponed = within_budget(plan, self._refusals.is_scarce, partial(self._refusals.free_launches, claims))
        return plan, postponed

    async def _wait_for_cheaper(
        self, solution: _Solution, offers: PoolOffers, prices: TypeChoiceExplainer, part: float
    ) -> tuple[Solved, Mapping[str, ShortageWait]]:
        """Hold back the nodes that are far dearer than usual, where NodePools ask for it.

        The pods that wait are planned once more, because other NodePools may take them.
        """
        solved, pods = solution.solved, solution.pods
        pools = {pool.metadata.name: pool for pool, _ in offers.overlaid.pools_with_types}
        waits = await asyncio.to_thread(dear_nodes, solved.plan, pools, prices)
        if waits:
            rest = part * RETRY_SECONDS * RETRY_SECONDS
            _, second = await self._solver.solve(elsewhere(pods, waits), offers, rest)
            plan, waits = await asyncio.to_thread(held_back, second.plan, pods, waits, pools, prices)
            solved = Solved(plan, second.failed, solved.seconds + second.seconds)
        plan = await asyncio.to_thread(without_dear_types, solved.plan, pools, prices)
        return replace(solved, plan=plan), waits


def _provisionable(undecided: Sequence[Pod]) -> list[Pod]:
    """The pods of the cluster among those that need a decision, which the log and the span of the batch tell of."""
    pods = [pod for pod in undecided if not pod.buffer]
    if pods:
        log.info("The provisioner found provisionable pods", extra={"pods": _first_few(pods), "pod-count": len(pods)})
    spans.began(min((pod.created for pod in pods if pod.created), default=0.0))
    return pods


def _with_probes(plan: Plan, probes: Probes) -> Plan:
    """The plan with the probes, whose pods have a place now."""
    if not probes.claims:
        return plan
    placed = {pod.key for claim in probes.claims for pod in claim.pods}
    unschedulable = {key: why for key, why in plan.unschedulable.items() if key not in placed}
    return replace(plan, claims=(*plan.claims, *probes.claims), unschedulable=unschedulable)


def _explained(
    plan: Plan, winners: TypeChoiceExplainer, probes: Probes
) -> tuple[list[Explanation], list[float | None]]:
    """For each NodeClaim, why it is bought, and what the cheapest refused offering costs. Probes come last."""
    ordinary = [claim for claim in plan.claims if not probes.include(claim)]
    probing = plan.claims[len(ordinary) :]
    why = explanations(winners, ordinary)
    usual_prices = [winners.usual_price(claim) for claim in ordinary]
    if probing and probes.prices is not None:
        why += explanations(probes.prices, probing)
        usual_prices += [probes.prices.usual_price(claim) for claim in probing]
    return why, usual_prices


def _first_few(pods: Sequence[Pod]) -> str:
    shown = ", ".join(pod.key for pod in pods[:5])
    return f"{shown} and {len(pods) - 5} other(s)" if len(pods) > 5 else shown
