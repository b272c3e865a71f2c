"""Decides about one batch: which NodeClaims its pods need, which of them wait, and why the other pods have no place.

The engine solves the batch. Afterwards nodes are held back that no one should buy now: for pods that earlier nodes did
not get, at prices far above the usual, of NodePools that EC2 refuses, and beyond quotas.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from activities import loggers, metrics
from activities.cluster_view.interfaces import ClusterView, Types
from activities.provisioning.batch_solving import LiveSolver
from activities.provisioning.batching import Batcher
from activities.provisioning.buffers import BufferRoom
from activities.provisioning.capacity_probes import CapacityProbes, Probes
from activities.provisioning.launch_refusals import LaunchRefusals
from activities.provisioning.offerings import instance_types_by_pool
from activities.provisioning.pause_reporting import PauseReporter
from activities.provisioning.plan_decision import PlanDecision
from activities.provisioning.plan_phases import plan_phase
from activities.provisioning.refused_launches import RefusedLaunches
from activities.provisioning.solving import Solved
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
from tenon.provisioning.launch_breakers import next_probe, only_probes, pools_for_plans, probed, without_held_types
from tenon.provisioning.launch_budget import within_budget
from tenon.provisioning.overlays import Overlaid
from tenon.provisioning.planning_policy import PlanPolicy
from tenon.provisioning.problem import with_pool_reasons
from tenon.provisioning.purchase import explanations
from tenon.provisioning.readiness import usable_pools
from tenon.provisioning.refused_offerings import refused_for, with_refused_offerings
from tenon.provisioning.shortage_waits import dear_nodes, elsewhere, held_back, without_dear_types
from tenon.scheduling.explanation.type_choice import TypeChoiceExplainer
from tenon.scheduling.local_disks import lost_disks
from tenon.scheduling.model import InstanceType, Plan, Problem

log = loggers.PROVISIONER

RETRY_SECONDS = 0.5
"""The fraction of a solve's time limit for a second solve of a batch. Both must fit in the activity's timeout."""


class PlanDecider:
    """Decides about batches on a live cluster."""

    def __init__(
        self,
        view: ClusterView,
        types: Types,
        batcher: Batcher,
        buffers: BufferRoom,
        refusals: LaunchRefusals,
        launches: RefusedLaunches,
        policy: PlanPolicy,
        solver: LiveSolver,
        pauses: PauseReporter,
        now: Callable[[], datetime],
    ) -> None:
        """``refusals``: what EC2 refuses. ``launches``: those of earlier plans. ``pauses``: says why pods wait."""
        self._view = view
        self._types = types
        self._batcher = batcher
        self._buffers = buffers
        self._refusals = refusals
        self._launches = launches
        self._probes = CapacityProbes(view, types, refusals, policy)
        self._solver = solver
        self._pauses = pauses
        self._now = now

    async def decide(self, batch: int, part: float = 1.0) -> PlanDecision | None:
        """Plan the pods that need a decision, within this fraction of a solve's time; None if no pod does."""
        fingerprint = self._view.fingerprint()  # before anything is read, so that later changes count as new
        undecided = self._batcher.undecided()
        if not undecided:
            return None
        self._refusals.no_capacity(self._launches.count(undecided, self._refusals.unavailable()))
        usable = usable_pools(self._view.node_pools(), self._view.node_class, self._view)
        breakers = self._refusals.breakers(usable)
        launching = self._view.launching_pools() if breakers else frozenset()
        closed = probed(breakers, launching, self._now())
        refused = self._refusals.refused_claims(self._view.launching_claims)
        pools = pools_for_plans(usable, breakers, closed) if breakers else usable
        with plan_phase("types", Phase.TYPES):
            overlaid = await instance_types_by_pool(self._view, self._types, pools, self._refusals.unavailable())
        if breakers:
            overlaid = replace(
                overlaid, pools_with_types=without_held_types(overlaid.pools_with_types, breakers, closed)
            )
        undecided = self._batcher.undecided()  # again, because EC2 may have taken seconds and pods may have gone
        if not undecided:
            return None
        pods = [pod for pod in undecided if not pod.buffer]
        if pods:
            log.info(
                "The provisioner found provisionable pods", extra={"pods": _first_few(pods), "pod-count": len(pods)}
            )
        spans.began(min((pod.created for pod in pods if pod.created), default=0.0))
        waiting_pods = [*pods, *self._buffers.pods()]
        problem, solved = await self._solver.solve(waiting_pods, overlaid, part, refused)
        pauses = self._batcher.count_unused_nodes(pod for claim in solved.plan.claims for pod in claim.pods)
        waiting = [pod for pod in waiting_pods if pod.key in pauses]
        if waiting:  # rare, so the plan for the others is made from the start
            waiting_pods = [pod for pod in waiting_pods if pod.key not in pauses]
            problem, solved = await self._solver.solve(waiting_pods, overlaid, part * RETRY_SECONDS, refused)
        paused = await self._pauses.sentences(waiting, pauses)
        types_by_pool = {pool.metadata.name: types for pool, types in overlaid.pools_with_types}
        next_attempts = self._refusals.next_attempts()
        attempted_at = partial(next_attempt_of, next_attempts)
        winners = TypeChoiceExplainer(problem, types_by_pool, attempted_at)
        engine_plan = solved.plan
        solved, waits = await self._wait_for_cheaper(waiting_pods, solved, overlaid, winners, part, refused)
        left_out = {name: Obstacle(ObstacleKind.LAUNCHES, sentence(breakers[name])) for name in closed}
        explained = await asyncio.to_thread(
            with_refused_offerings,
            solved.plan,
            [pod for pod in waiting_pods if pod.key not in waits],
            problem.pools,
            types_by_pool,
            next_attempts,
        )
        lacked_quotas = await asyncio.to_thread(
            self._lacked_quotas,
            explained,
            [pod for pod in waiting_pods if pod.key not in waits],
            problem,
            types_by_pool,
        )
        reasoned = with_pool_reasons(explained, self._view, waiting_pods, left_out, self._view)
        plan = only_probes(reasoned, breakers, batch)
        solve = partial(self._solver.solve_again, part=part * RETRY_SECONDS)
        probes = await self._probes.for_plan(plan, waiting_pods, problem, pools, breakers, attempted_at, batch, solve)
        plan, postponed = self._within_budgets(_with_probes(plan, probes), probes, types_by_pool)
        metrics.SCHEDULING_SECONDS.labels("provisioner").observe(solved.seconds)
        metrics.PLAN_PHASE_SECONDS.labels("solve").observe(solved.seconds)
        ready = frozenset(node.name for node in problem.nodes if node.initialized)
        in_flight = frozenset(node.name for node in problem.nodes if node.requirements is not None)
        with plan_phase("explain", Phase.EXPLAIN):
            why, usual_prices = await asyncio.to_thread(_explained, plan, winners, probes)
        without_types = {pool.name: pool.why_lacking for pool in problem.pools if pool.lacking}
        return PlanDecision(
            plan=plan,
            all_pods=[*waiting_pods, *waiting],
            failed=solved.failed,
            overlaid=overlaid,
            ready=ready,
            fingerprint=fingerprint,
            took=solved.seconds,
            problem=problem,
            as_solved=plan.claims == engine_plan.claims and plan.placements == engine_plan.placements,
            in_flight=in_flight,
            explanations=why,
            usual_prices=usual_prices,
            waits=waits,
            paused=paused,
            doubts=lost_disks(problem),
            without_types=without_types,
            refused=refused,
            next_probe=next_probe(breakers, launching),
            probes=probes,
            postponed=postponed,
            lacked_quotas=lacked_quotas,
        )

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
        self,
        waiting_pods: Sequence[Pod],
        solved: Solved,
        overlaid: Overlaid,
        prices: TypeChoiceExplainer,
        part: float,
        refused: Collection[str],
    ) -> tuple[Solved, Mapping[str, ShortageWait]]:
        """Hold back the nodes that are far dearer than usual, where NodePools ask for it.

        The pods that wait are planned once more, because other NodePools may take them.
        """
        pools = {pool.metadata.name: pool for pool, _ in overlaid.pools_with_types}
        waits = await asyncio.to_thread(dear_nodes, solved.plan, pools, prices)
        if waits:
            rest = part * RETRY_SECONDS * RETRY_SECONDS
            _, second = await self._solver.solve(elsewhere(waiting_pods, waits), overlaid, rest, refused)
            plan, waits = await asyncio.to_thread(held_back, second.plan, waiting_pods, waits, pools, prices)
            solved = Solved(plan, second.failed, solved.seconds + second.seconds)
        plan = await asyncio.to_thread(without_dear_types, solved.plan, pools, prices)
        return replace(solved, plan=plan), waits


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
