"""Plans one batch: reads the cluster, solves, and writes the NodeClaims.

A retry of the same batch finds the claims that it wrote before by their label. It never plans the batch again.

The cache may be stale without any sign of it: a watch that a proxy or a dead connection holds back looks like a quiet
one. Two kinds of objects must not be stale, or nodes are bought twice:

- NodeClaims: batches follow one another and a watch keeps the order, so claims that the cache lacks belong to the
  newest batch that it knows or to a newer one. One small list by label finds them, and shows whether this batch was
  planned before. The planner waits a moment for missing claims and then reads all NodeClaims again. Claims that have
  been deleted meanwhile do not delay it.
- Pods: if their watch has been silent for some seconds, they are read again, but only if the plan is about to buy
  something. In a cluster with many pods a silent watch is a broken one; with few pods the list is cheap. The resource
  version of a list proves nothing: it belongs to the whole store, and no event of one quiet resource ever reaches it.

Other stale objects, such as a Node or a NodePool, make a plan worse but do not double it, until the silent watch is
detected.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from temporalio.exceptions import ApplicationError

from activities import loggers, metrics
from activities.clock import utc_now
from activities.cluster_view.interfaces import ClusterView, Fingerprint, Types
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.event_references import pod_reference, pool_reference
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.resources import NODECLAIMS, PODS
from activities.provisioning.account_commitments import CommitmentStore
from activities.provisioning.batching import Batcher
from activities.provisioning.buffers import BufferRoom
from activities.provisioning.capacity_probes import CapacityProbes, Probes
from activities.provisioning.claim_writer import ClaimWrite, Written, write_claims
from activities.provisioning.launch_refusals import LaunchRefusals
from activities.provisioning.offerings import instance_types_by_pool
from activities.provisioning.pod_events import PodEvents
from activities.provisioning.refused_launches import RefusedLaunches
from activities.provisioning.solving import Solved, Solver
from activities.provisioning.superseded_claims import RefusedClaims, delete_superseded
from activities.provisioning.unplaced_pods import UnplacedPods
from activities.provisioning.waiting_pods import WaitingPods
from activities.provisioning.warm_starts import WarmStarts
from activities.record.plan_inputs import InputKeeper, KeptInputs
from activities.record.writer import NO_RECORD, RecordWriter, origin_of_activity
from activities.tracing import spans
from activities.tracing.catalogue import Phase
from tenon.apis import labels
from tenon.apis.nodepool import NodePool
from tenon.apis.shortage_price import is_far_dearer, price_factor
from tenon.ec2.commitments.pools import with_commitments
from tenon.ec2.refusals.known_quotas import within_quotas
from tenon.ec2.refusals.unavailable import UnavailableOfferings, backoffs_of, grouped, next_attempt_of
from tenon.kube.conditions import condition
from tenon.kube.event_reasons import EventReason
from tenon.kube.offerings import OfferingKey
from tenon.kube.pod import Pod
from tenon.messages.launch import OfferingRef
from tenon.messages.provisioning import PendingPods, PlanInput, PlanResult, PurchasePause, ShortageWait
from tenon.node.breaker import sentence
from tenon.provisioning.launch_breakers import next_probe, only_probes, pools_for_plans, probed, without_held_types
from tenon.provisioning.launch_budget import within_budget
from tenon.provisioning.overlays import Overlaid
from tenon.provisioning.pending_pods import bounded, with_place
from tenon.provisioning.plan_digest import plan_digest
from tenon.provisioning.planning_policy import PlanPolicy
from tenon.provisioning.problem import problem_of, with_pool_reasons
from tenon.provisioning.purchase import explanations
from tenon.provisioning.purchase_pauses import existing_node_sentence, pause_sentence, pool_sentence
from tenon.provisioning.readiness import usable_pools
from tenon.provisioning.refused_offerings import refused_for, with_refused_offerings
from tenon.provisioning.shortage_waits import dear_nodes, elsewhere, held_back, without_dear_types
from tenon.record.entries import Entry
from tenon.record.plans import plan_entry
from tenon.scheduling.explanation.type_choice import TypeChoiceExplainer
from tenon.scheduling.local_disks import lost_disks
from tenon.scheduling.model import InstanceType, Plan, PlannedClaim, Problem

log = loggers.PROVISIONER

RETRY_SECONDS = 0.5
"""The fraction of a solve's time limit for a second solve of a batch. Both must fit in the activity's timeout."""

MAX_REFUSALS_READ = 10
"""For how many groups of pods one plan reads why kube-scheduler refuses them. Each costs a request."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class _Decision:
    plan: Plan
    all_pods: Sequence[Pod]
    """All pods that the plan is for, including those of buffers."""
    failed: Mapping[str, str]
    """Key to the reason, for pods that are in no part of the plan because the engine failed on them."""
    overlaid: Overlaid
    ready: frozenset[str]
    """The nodes that were initialized."""
    fingerprint: Fingerprint
    took: float
    problem: Problem
    """What the engine was asked."""
    as_solved: bool
    """The plan is what the engine said, and no node was held back."""
    in_flight: frozenset[str] = frozenset()
    """The names of NodeClaims that have no Node yet."""
    explanations: Sequence[str] = ()
    """For each NodeClaim of the plan, why it is bought."""
    usual_prices: Sequence[float | None] = ()
    """For each NodeClaim of the plan, what the cheapest refused offering costs that would do; None if none."""
    waits: Mapping[str, ShortageWait] = field(default_factory=dict)
    """Key to what the pod waits for, for pods that do not accept the price of the node that they could get."""
    paused: Mapping[str, str] = field(default_factory=dict)
    """Key to the reason, for pods that are in no part of the plan because earlier nodes did not get them."""
    doubts: Mapping[str, str] = field(default_factory=dict)
    """Key to the reason why kube-scheduler may not place the pod where the plan has it."""
    without_types: Mapping[str, str] = field(default_factory=dict)
    """Why no instance type is available, for each NodePool that has none."""
    refused: RefusedClaims = field(default_factory=dict)
    """The NodeClaims that EC2 refuses because of their EC2NodeClass."""
    next_probe: datetime | None = None
    """When a NodeClaim may be made to probe an EC2NodeClass that EC2 refuses; None if none is due."""
    probes: Probes = field(default_factory=Probes)
    """Those of the NodeClaims that ask for offerings which EC2 refused."""
    postponed: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Key to the NodePool and capacity type that must launch other nodes first, for pods whose node waits for that."""
    lacked_quotas: frozenset[OfferingKey] = frozenset()
    """What plans avoid because of quotas, and pods without a place could use."""

    @property
    def dear_claims(self) -> list[PlannedClaim]:
        """The NodeClaims of the plan that cost far more than usual."""
        return [
            claim
            for claim, usual_price in zip(self.plan.claims, self.usual_prices, strict=True)
            if usual_price is not None
            and is_far_dearer(claim.price, usual_price, price_factor(self.pools[claim.pool].metadata.annotations))
        ]

    @property
    def pods(self) -> list[Pod]:
        """The pods that exist in the cluster, without those of buffers."""
        return [pod for pod in self.all_pods if not pod.buffer]

    @property
    def pools(self) -> dict[str, NodePool]:
        """The NodePools that the plan could buy from, by name."""
        return {pool.metadata.name: pool for pool, _ in self.overlaid.pools_with_types}


@contextmanager
def _phase(name: str, span: Phase) -> Iterator[None]:
    """Measure and record a phase of a plan."""
    with metrics.PLAN_PHASE_SECONDS.labels(name).time(), spans.phase(span):
        yield


class Planner:
    """Plans batches on a live cluster, one at a time."""

    def __init__(
        self,
        view: ClusterView,
        types: Types,
        kube: Kube,
        recorder: EventPublisher,
        batcher: Batcher,
        now: Callable[[], datetime] = utc_now,
        policy: PlanPolicy | None = None,
        buffers: BufferRoom | None = None,
        solver: Solver | None = None,
        refusals: LaunchRefusals | None = None,
        decided: Callable[[Iterable[str], Collection[str]], None] | None = None,
        record: RecordWriter = NO_RECORD,
        inputs: InputKeeper | None = None,
        warm: WarmStarts | None = None,
        commitments: CommitmentStore | None = None,
    ) -> None:
        """``policy``: the operator's settings that affect plans. ``buffers``: what CapacityBuffers request.

        ``refusals``: what EC2 refuses, kept for other parts of the process. ``decided``: called after each plan with
        the UIDs of the pods that it is for, and of those that it has a place for. ``record``: gets an entry for each
        plan. ``inputs``: keeps what plans are made from. ``warm``: the stopped nodes that plans may have started.
        ``commitments``: the Reserved Instances and Savings Plans that plans use first.
        """
        self._commitments = commitments or CommitmentStore()
        self._record = record
        self._inputs = inputs
        self._warm = warm or WarmStarts(kube)
        self._recording: set[asyncio.Task[None]] = set()
        self._decided = decided
        self._solver = solver or Solver()
        self._refusals = refusals or LaunchRefusals(now=now)
        self._buffers = buffers or BufferRoom()
        self._view = view
        self._types = types
        self._kube = kube
        self._recorder = recorder
        self._pod_events = PodEvents(recorder)
        self._refused_launches = RefusedLaunches()
        self._waiting = WaitingPods()
        self._unplaced = UnplacedPods()
        self._batcher = batcher
        self._now = now
        self._policy = policy or PlanPolicy()
        self._probes = CapacityProbes(view, types, self._refusals, self._policy)
        self._one_at_a_time = asyncio.Lock()

    async def plan(self, plan_input: PlanInput) -> PlanResult:
        """Plan the current batch and write its NodeClaims.

        If a plan is cancelled, because Temporal timed it out or its provisioner was terminated, it first ends its
        solve. The next plan waits until then, and so sees what the cancelled plan wrote.
        """
        async with self._one_at_a_time:
            return await self._plan(plan_input)

    async def _plan(self, plan_input: PlanInput) -> PlanResult:
        self._refusals.update(plan_input.breakers)
        self._refusals.replace_unavailable(backoffs_of(plan_input.unavailable))
        reopened = self._refusals.reopened(self._view.all_claims())
        if reopened:
            self._refusals.reopen(reopened)
            self._batcher.capacity_is_back()
        self._batcher.adopt(plan_input.pauses)
        result = partial(self._result, plan_input, reopened=[OfferingRef.of(key) for key in sorted(reopened)])
        before = await self._check_up_to_date(plan_input)
        if before:
            log.info("The batch was planned before", extra={"batch": plan_input.batch, "nodeclaims": before})
            return result(claims=before)
        decision = await self._decide(plan_input.batch)
        if decision is not None and decision.plan.claims and await self._caught_up(self._view.confirm_pods()):
            decision = await self._decide(plan_input.batch, part=RETRY_SECONDS)
        if decision is None:
            return result()
        unavailable = self._refusals.unavailable()
        try:
            with _phase("write", Phase.WRITE):
                written = await write_claims(
                    self._kube,
                    decision.plan,
                    decision.pools,
                    plan_input.batch,
                    decision.overlaid,
                    decision.explanations,
                    self._avoided(decision),
                    decision.usual_prices,
                    names_none=self._refusals.any_refused(),
                )
        except ApiError as error:
            unwritten = _as_written(decision, Written.nothing(decision.plan, error))
            await self._pod_events.publish(unwritten, filter(_waits, decision.pods), (), decision.in_flight)
            raise
        plan, pods = _as_written(decision, written), decision.pods
        await self._warm.start(plan.placements)
        self._write_record(plan_input, decision, plan, written)
        metrics.UNSCHEDULABLE_PODS.labels("provisioner").set(
            sum(_waits(pod) and pod.key in plan.unschedulable for pod in pods)
        )
        metrics.QUEUE_DEPTH.labels("provisioner").set(0)
        metrics.IGNORED_PODS.set(sum(1 for pod in pods if pod.unsupported))
        self._remember(decision, written)
        places = (*plan.placements.values(), *(claim.pods for claim in written.claims))
        placed = {pod.uid for pods_of_place in places for pod in pods_of_place}
        if self._decided is not None:
            self._decided((pod.uid for pod in pods), placed)
        await delete_superseded(self._kube, self._recorder, self._view, decision.refused, placed)
        self._buffers.simulated(plan, decision.ready, written.names)
        await self._publish_refusals(decision.pools, written)
        for name, why in decision.without_types.items():
            message = f"{why[0].upper()}{why[1:]}"
            await self._recorder.publish(
                pool_reference(decision.pools[name]), EventReason.NO_COMPATIBLE_INSTANCE_TYPES, message
            )
        lacking = self._refused_launches.reasons(plan, unavailable, decision.dear_claims)
        self._refused_launches.bought(written.claims)
        await self._pod_events.publish(
            plan, filter(_waits, pods), written.names, decision.in_flight, lacking, decision.doubts
        )
        for pod, node, since in self._batcher.refused_on_nodes(filter(_waits, pods)):
            message = existing_node_sentence(node, since, await self._refusal(pod))
            await self._recorder.publish(pod_reference(pod), EventReason.FAILED_SCHEDULING, message)
        self._unplaced.planned(pods, plan.unschedulable, decision.waits.keys() | decision.paused.keys())
        return result(
            with_place(plan, written.names),
            claims=list(written.names),
            pods=len(pods),
            placed_on_existing=sum(not pod.buffer for placed in plan.placements.values() for pod in placed),
            unschedulable=sum(pod.key in plan.unschedulable for pod in pods),
            refused=sum(claim_write.refusal is not None for claim_write in written.unwritten),
            unreached=sum(pod.key in plan.unreached for pod in pods),
            over_quota=grouped(self._refusals.used_up_quotas(decision.lacked_quotas)),
            postponed=len(decision.postponed),
            price=round(sum(claim.price for claim in plan.claims), 6),
            digest=plan_digest(decision.plan),
            solve_seconds=round(decision.took, 4),
        )

    def _avoided(self, decision: _Decision) -> list[UnavailableOfferings]:
        """For each NodeClaim of the plan, the offerings that it must not ask for."""
        unavailable = self._refusals.unavailable()
        for_probes = UnavailableOfferings(unavailable - decision.probes.due)
        return [for_probes if decision.probes.include(claim) else unavailable for claim in decision.plan.claims]

    def _write_record(self, plan_input: PlanInput, decision: _Decision, plan: Plan, written: Written) -> None:
        """Record the plan as it was carried out. If its inputs are kept, its entry follows when they are."""
        origin, now = origin_of_activity(plan_input.cluster), self._now()

        def make(kept_inputs: KeptInputs) -> Entry:
            why = dict(zip(map(id, decision.plan.claims), decision.explanations, strict=True))  # claims have no hash
            return plan_entry(
                origin,
                now,
                plan,
                batch=plan_input.batch,
                claims=written.names,
                explanations=[why[id(claim)] for claim in written.claims],
                pods=len(decision.pods),
                decision=plan_digest(decision.plan),
                inputs=kept_inputs.digest,
                inputs_lacking=kept_inputs.lacking,
                seconds=decision.took,
            )

        lacking = _not_replayable(decision, written)
        if self._inputs is None or lacking:
            self._record.write(partial(make, KeptInputs(lacking=lacking if self._inputs is not None else "")))
            return
        task = asyncio.create_task(self._keep_and_record(self._inputs, decision.problem, make), name="keep plan inputs")
        self._recording.add(task)
        task.add_done_callback(self._recording.discard)

    async def _keep_and_record(
        self, inputs: InputKeeper, problem: Problem, make: Callable[[KeptInputs], Entry]
    ) -> None:
        kept_inputs = KeptInputs(lacking="the worker ended before they were kept")
        try:
            kept_inputs = await inputs.keep(problem)
        finally:
            self._record.write(partial(make, kept_inputs))

    def _result(self, plan_input: PlanInput, with_places: Sequence[PendingPods] = (), **figures: Any) -> PlanResult:
        """A plan's result, with what the workflow keeps. ``with_places``: the pods that the plan has a place for."""
        pods = self._view.pending_pods()
        pending, left_out = bounded([*self._unplaced.report(pods), *with_places])
        return PlanResult(
            batch=plan_input.batch,
            pauses=self._batcher.pauses(),
            waits=self._waiting.report(pods),
            pending=pending,
            pending_left_out=left_out,
            **figures,
        )

    async def _decide(self, batch: int, part: float = 1.0) -> _Decision | None:
        """Plan the pods that need a decision, within this fraction of a solve's time; None if no pod does."""
        fingerprint = self._view.fingerprint()  # before anything is read, so that later changes count as new
        undecided = self._batcher.undecided()
        if not undecided:
            return None
        self._refusals.no_capacity(self._refused_launches.count(undecided, self._refusals.unavailable()))
        usable = usable_pools(self._view.node_pools(), self._view.node_class, self._view)
        breakers = self._refusals.breakers(usable)
        launching = self._view.launching_pools() if breakers else frozenset()
        closed = probed(breakers, launching, self._now())
        refused = self._refusals.refused_claims(self._view.launching_claims)
        pools = pools_for_plans(usable, breakers, closed) if breakers else usable
        with _phase("types", Phase.TYPES):
            overlaid = await self._instance_types(pools)
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
        problem, solved = await self._solve(waiting_pods, overlaid, part, refused)
        pauses = self._batcher.buys_again(pod for claim in solved.plan.claims for pod in claim.pods)
        waiting = [pod for pod in waiting_pods if pod.key in pauses]
        if waiting:  # rare, so the plan for the others is made from the start
            waiting_pods = [pod for pod in waiting_pods if pod.key not in pauses]
            problem, solved = await self._solve(waiting_pods, overlaid, part * RETRY_SECONDS, refused)
        paused = await self._pause_sentences(waiting, pauses)
        types_by_pool = {pool.metadata.name: types for pool, types in overlaid.pools_with_types}
        next_attempts = self._refusals.next_attempts()
        attempted_at = partial(next_attempt_of, next_attempts)
        winners = TypeChoiceExplainer(problem, types_by_pool, attempted_at)
        engine_plan = solved.plan
        solved, waits = await self._wait_for_cheaper(waiting_pods, solved, overlaid, winners, part, refused)
        left_out = {name: sentence(breakers[name]) for name in closed}
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
        solve = partial(self._solve_probes, part * RETRY_SECONDS)
        probes = await self._probes.for_plan(plan, waiting_pods, problem, pools, breakers, attempted_at, batch, solve)
        plan, postponed = self._within_budgets(_with_probes(plan, probes), probes, types_by_pool)
        metrics.SCHEDULING_SECONDS.labels("provisioner").observe(solved.seconds)
        metrics.PLAN_PHASE_SECONDS.labels("solve").observe(solved.seconds)
        ready = frozenset(node.name for node in problem.nodes if node.initialized)
        in_flight = frozenset(node.name for node in problem.nodes if node.requirements is not None)
        with _phase("explain", Phase.EXPLAIN):
            why, usual_prices = await asyncio.to_thread(_explained, plan, winners, probes)
        without_types = {pool.name: pool.lacking for pool in problem.pools if pool.lacking}
        return _Decision(
            plan,
            [*waiting_pods, *waiting],
            solved.failed,
            overlaid,
            ready,
            fingerprint,
            solved.seconds,
            problem,
            plan.claims == engine_plan.claims and plan.placements == engine_plan.placements,
            in_flight,
            why,
            usual_prices,
            waits,
            paused,
            lost_disks(problem),
            without_types,
            refused,
            next_probe(breakers, launching),
            probes,
            postponed,
            lacked_quotas,
        )

    def _lacked_quotas(
        self, plan: Plan, pods: Sequence[Pod], problem: Problem, types_by_pool: Mapping[str, Sequence[InstanceType]]
    ) -> frozenset[OfferingKey]:
        """What plans avoid because of quotas, and those of the pods that have no place could use."""
        avoided = self._refusals.avoided_for_quotas()
        keys = refused_for(plan.unschedulable, pods, problem.pools, types_by_pool, avoided)
        if keys:
            self._refusals.quota_lacks()
        return keys

    async def _solve_probes(self, part: float, problem: Problem) -> Plan:
        with spans.phase(Phase.SOLVE):
            return (await self._solver.solve(problem, part)).plan

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
            _, second = await self._solve(elsewhere(waiting_pods, waits), overlaid, rest, refused)
            plan, waits = await asyncio.to_thread(held_back, second.plan, waiting_pods, waits, pools, prices)
            solved = Solved(plan, second.failed, solved.seconds + second.seconds)
        plan = await asyncio.to_thread(without_dear_types, solved.plan, pools, prices)
        return replace(solved, plan=plan), waits

    async def _solve(
        self, waiting_pods: Sequence[Pod], overlaid: Overlaid, part: float, refused: Collection[str]
    ) -> tuple[Problem, Solved]:
        """The problem and its solution. ``refused``: NodeClaims that get no pods."""
        with _phase("problem", Phase.PROBLEM):
            problem = await asyncio.to_thread(
                problem_of,
                self._view.snapshot(),
                waiting_pods,
                overlaid.pools_with_types,
                self._policy,
                self._batcher.reserved(),
                self._refusals.next_attempts(),
            )
            coverage = await asyncio.to_thread(self._commitments.coverage, list(self._view.all_claims()))
        problem = with_commitments(self._warm.opened(problem), coverage.remaining)
        if refused:
            problem = replace(problem, nodes=[node for node in problem.nodes if node.name not in refused])
        with spans.phase(Phase.SOLVE):
            return problem, await self._solver.solve(problem, part)

    async def _pause_sentences(self, pods: Sequence[Pod], pauses: Mapping[str, PurchasePause]) -> dict[str, str]:
        """By key, why no node is bought for the paused pods. Events on their NodePools say so too.

        Only `MAX_REFUSALS_READ` groups have kube-scheduler's sentence, so that many groups delay no other pod.
        """
        refusals: dict[str, str] = {}
        sentences = {}
        for pod in pods:
            pause = pauses[pod.key]
            if pause.group not in refusals and len(refusals) >= MAX_REFUSALS_READ:
                sentences[pod.key] = pause_sentence(pause, "")
                continue
            if pause.group not in refusals:
                refusals[pause.group] = refusal = await self._refusal(pod)
                self._batcher.explained(pause.group, refusal)
                pool = next((pool for pool in self._view.node_pools() if pool.metadata.name == pause.pool), None)
                if pool is not None:
                    message = pool_sentence(pause, pod.key, refusal)
                    await self._recorder.publish(pool_reference(pool), EventReason.NODES_NOT_USED, message)
            sentences[pod.key] = pause_sentence(pause, refusals[pause.group])
        return sentences

    async def _refusal(self, pod: Pod) -> str:
        """What kube-scheduler says about a pod that it cannot place. The cache does not keep it, because it is long."""
        try:
            body = await self._kube.get(PODS, pod.name, pod.namespace)
        except ApiError as error:
            log.info("The pod cannot be read for an event", extra={"pod": pod.key, "error": str(error)})
            return ""
        return str(condition(body or {}, "PodScheduled").get("message") or "")

    async def _check_up_to_date(self, plan_input: PlanInput) -> list[str]:
        """The names of this batch's existing NodeClaims. On return, the view contains those of all other batches."""
        if not self._view.synced():
            raise ApplicationError("the cluster cache is not synced yet", type="CacheBehind")
        newest = self._view.newest_batch(plan_input.batch)
        existing_claims = await self._kube.list(NODECLAIMS, label_selector=f"{labels.BATCH}>{max(0, newest - 1)}")
        batch_of = {claim["metadata"]["name"]: claim["metadata"]["labels"][labels.BATCH] for claim in existing_claims}
        written = sorted(name for name, batch in batch_of.items() if batch == str(plan_input.batch))
        if not written and (missing := batch_of.keys() - self._view.claim_names()):
            await self._caught_up(self._view.catch_up(missing))
        return written

    @staticmethod
    async def _caught_up(reading: Awaitable[_T]) -> _T:
        try:
            return await reading
        except TimeoutError:
            raise ApplicationError(
                "the cluster cache is behind the API server and could not be read again", type="CacheBehind"
            ) from None

    async def _instance_types(self, pools: Sequence[NodePool]) -> Overlaid:
        """The pools with their instance types, with NodeOverlays applied and without the refused offerings."""
        return await instance_types_by_pool(self._view, self._types, pools, self._refusals.unavailable())

    def _remember(self, decision: _Decision, written: Written) -> None:
        self._waiting.planned(decision.all_pods, decision.waits)
        by_key = {pod.key: pod for pod in decision.all_pods}
        self._refusals.probing(decision.probes.keys(written.claims))
        probes = () if decision.next_probe is None else (decision.next_probe,)
        now = self._now()
        due = (at for backoff in self._refusals.backoffs().values() for at in (backoff.probe_at, backoff.until))
        offered_again = min((*(at for at in due if at > now), *probes), default=None)
        unplaced = [by_key[key] for key in decision.plan.unschedulable if key not in decision.postponed]
        self._batcher.unschedulable(unplaced, decision.fingerprint, offered_again)
        self._batcher.postponed((by_key[key], subject) for key, subject in decision.postponed.items())
        for pool, nodes in Counter(pool for pool, _ in decision.postponed.values()).items():
            metrics.LAUNCHES_POSTPONED.labels(pool).inc(nodes)
        self._batcher.told_of_pause(by_key[key] for key in decision.paused)
        self._batcher.engine_failed(by_key[key] for key in decision.failed)
        self._batcher.nominated(decision.plan.placements, decision.ready)
        self._batcher.bought(pod.uid for claim in written.claims for pod in claim.pods)
        for unwritten in written.unwritten:
            if unwritten.refusal is not None:  # claims with transient failures are planned in the next batch
                self._batcher.refused(unwritten.planned.pods, unwritten.planned.pool)

    async def _publish_refusals(self, pools: Mapping[str, NodePool], written: Written) -> None:
        """Write an event on each NodePool whose NodeClaims the API server refused, with one of its messages."""
        refused: dict[str, list[tuple[ClaimWrite, ApiError]]] = {}
        for unwritten in written.unwritten:
            if (error := unwritten.refusal) is not None:
                refused.setdefault(unwritten.planned.pool, []).append((unwritten, error))
                metrics.CLAIMS_REFUSED.labels(unwritten.planned.pool, error.reason).inc()
        for name, refusal in refused.items():
            pods = sum(len(unwritten.planned.pods) for unwritten, _ in refusal)
            message = refusal[0][1].message
            await self._recorder.publish(
                pool_reference(pools[name]),
                EventReason.FAILED_CREATE,
                f"The API server refused {len(refusal)} of its NodeClaims, for {pods} pods: {message}",
            )


def _not_replayable(decision: _Decision, written: Written) -> str:
    """Return why the engine would not make this plan again from the problem alone; empty if it would."""
    if decision.failed:
        return "the engine failed on some pods"
    if decision.plan.unreached:
        return "the engine's time ended before it reached all pods"
    if written.unwritten:
        return "not all NodeClaims of the plan could be written"
    if not decision.as_solved:
        return "some nodes of the engine's plan were held back, because EC2 refuses launches"
    return ""


def _with_probes(plan: Plan, probes: Probes) -> Plan:
    """The plan with the probes, whose pods have a place now."""
    if not probes.claims:
        return plan
    placed = {pod.key for claim in probes.claims for pod in claim.pods}
    unschedulable = {key: why for key, why in plan.unschedulable.items() if key not in placed}
    return replace(plan, claims=(*plan.claims, *probes.claims), unschedulable=unschedulable)


def _explained(plan: Plan, winners: TypeChoiceExplainer, probes: Probes) -> tuple[list[str], list[float | None]]:
    """For each NodeClaim, why it is bought, and what the cheapest refused offering costs. Probes come last."""
    ordinary = [claim for claim in plan.claims if not probes.include(claim)]
    probing = plan.claims[len(ordinary) :]
    why = explanations(winners, ordinary)
    usual_prices = [winners.usual_price(claim) for claim in ordinary]
    if probing and probes.prices is not None:
        why += explanations(probes.prices, probing)
        usual_prices += [probes.prices.usual_price(claim) for claim in probing]
    return why, usual_prices


def _waits(pod: Pod) -> bool:
    """Whether the pod waits for a node and should get events.

    A pod that must leave its node still runs, and a pod that stands for a buffer does not exist.
    """
    return not pod.node_name and not pod.buffer


def _as_written(decision: _Decision, written: Written) -> Plan:
    """The plan with only the written NodeClaims. Pods of the unwritten ones, and failed pods, become unschedulable."""
    why = {pod.key: unwritten.sentence for unwritten in written.unwritten for pod in unwritten.planned.pods}
    unschedulable = {**decision.plan.unschedulable, **why, **decision.failed, **decision.paused}
    return replace(decision.plan, claims=written.claims, unschedulable=unschedulable)


def _first_few(pods: Sequence[Pod]) -> str:
    shown = ", ".join(pod.key for pod in pods[:5])
    return f"{shown} and {len(pods) - 5} other(s)" if len(pods) > 5 else shown
