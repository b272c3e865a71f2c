"""Plans one batch: has it decided, writes its NodeClaims, and says what became of its pods.

A retry of the same batch finds the claims that it wrote before by their label. It never plans the batch again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from activities import loggers, metrics
from activities.clock import utc_now
from activities.cluster_view.interfaces import ClusterView, Types
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.events import EventPublisher
from activities.provisioning.batching import Batcher
from activities.provisioning.cache_freshness import claims_of_batch, pods_were_stale
from activities.provisioning.claim_writer import ClaimNotes, Written, write_claims
from activities.provisioning.live_solving import LiveSolver
from activities.provisioning.pause_reporting import PauseReporter
from activities.provisioning.plan_deciding import RETRY_SECONDS, PlanDecider
from activities.provisioning.plan_decision import PlanDecision, waits_for_node
from activities.provisioning.plan_phases import plan_phase
from activities.provisioning.plan_recording import PlanRecorder
from activities.provisioning.pod_events import PodEvents
from activities.provisioning.pods_without_node import UnplacedPods, WaitingPods
from activities.provisioning.pool_events import publish_missing_types, publish_refused_claims
from activities.provisioning.superseded_claims import delete_superseded
from activities.provisioning.tried_launches import TriedLaunches
from activities.provisioning.warm_starts import WarmStarts
from activities.tracing.catalogue import Phase
from tenon.ec2.refusals.unavailable import UnavailableOfferings, backoffs_of, grouped
from tenon.messages.offerings import OfferingRef
from tenon.messages.provisioning import PendingPods, PlanInput, PlanResult
from tenon.provisioning.pending_pods import bounded, with_place
from tenon.provisioning.plan_digest import plan_digest

log = loggers.PROVISIONER


class BatchPlanner:
    """Plans batches on a live cluster, one at a time."""

    def __init__(
        self,
        view: ClusterView,
        types: Types,
        kube: Kube,
        recorder: EventPublisher,
        batcher: Batcher,
        now: Callable[[], datetime] = utc_now,
        solver: LiveSolver | None = None,
        record: PlanRecorder | None = None,
        decided: Callable[[Iterable[str], Collection[str]], None] | None = None,
    ) -> None:
        """``solver``: states the problems and solves them. ``record``: gets an entry for each plan.

        ``decided``: called after each plan with the UIDs of the pods that it is for, and of those that it has a place
        for.
        """
        self._warm = WarmStarts(kube, view, now)
        self._decided = decided
        self._refusals = batcher.refusals
        self._view = view
        self._kube = kube
        self._recorder = recorder
        self._pod_events = PodEvents(recorder)
        self._tried_launches = TriedLaunches()
        self._waiting = WaitingPods()
        self._unplaced = UnplacedPods()
        self._batcher = batcher
        self._now = now
        self._pauses = PauseReporter(view, kube, recorder, batcher)
        self._record = record or PlanRecorder(now=now)
        self._decider = PlanDecider(
            view,
            types,
            batcher,
            self._tried_launches,
            solver or LiveSolver(view, batcher),
            self._pauses,
            now,
        )
        self._one_at_a_time = asyncio.Lock()

    def close(self) -> None:
        """Give up the events of pods that are not written yet."""
        self._pod_events.close()

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
        before = await claims_of_batch(self._view, self._kube, plan_input.batch)
        if before:
            log.info("The batch was planned before", extra={"batch": plan_input.batch, "nodeclaims": before})
            return result(claims=before)
        decision = await self._decider.decide(plan_input.batch)
        if decision is not None and decision.plan.claims and await pods_were_stale(self._view):
            decision = await self._decider.decide(plan_input.batch, part=RETRY_SECONDS)
        if decision is None:
            return result()
        return await self._carry_out(plan_input, decision, result)

    async def _write(self, plan_input: PlanInput, decision: PlanDecision) -> Written:
        """Write the NodeClaims of the plan.

        Raises:
            ApiError: the API server is not available. The events of the pods say it.
        """
        try:
            with plan_phase("write", Phase.WRITE):
                return await write_claims(
                    self._kube,
                    decision.plan,
                    decision.pools,
                    plan_input.batch,
                    decision.overlaid,
                    self._notes(decision),
                    names_none=self._refusals.any_refused(),
                )
        except ApiError as error:
            unwritten = decision.as_written(Written.nothing(decision.plan, error))
            await self._pod_events.publish(unwritten, filter(waits_for_node, decision.pods), (), decision.in_flight)
            raise

    async def _carry_out(
        self, plan_input: PlanInput, decision: PlanDecision, result: Callable[..., PlanResult]
    ) -> PlanResult:
        """Write the NodeClaims, and tell everyone what became of the pods. ``result``: makes the plan's result."""
        written = await self._write(plan_input, decision)
        plan, pods = decision.as_written(written), decision.pods
        await self._warm.start(plan.placements)
        self._record.write(plan_input, decision, plan, written)
        self._batcher.count_unschedulable(pods, plan.unschedulable)
        self._remember(decision, written)
        places = (*plan.placements.values(), *(claim.pods for claim in written.claims))
        placed = {pod.uid for pods_of_place in places for pod in pods_of_place}
        if self._decided is not None:
            self._decided((pod.uid for pod in pods), placed)
        await delete_superseded(self._kube, self._recorder, self._view, decision.refused, placed)
        self._batcher.buffers.simulated(plan, decision.ready, written.names, plan_pods=decision.all_pods)
        await publish_refused_claims(self._recorder, decision.pools, written)
        await publish_missing_types(self._recorder, decision.pools, decision.without_types)
        lacking = self._tried_launches.reasons(plan, decision.avoided, decision.dear_claims)
        self._tried_launches.bought(written.claims)
        await self._pod_events.publish(
            plan, filter(waits_for_node, pods), written.names, decision.in_flight, lacking, decision.doubts
        )
        await self._pauses.report_existing_nodes(filter(waits_for_node, pods))
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
            claim_prices=[round(claim.price, 6) for claim in written.claims],
            digest=plan_digest(decision.plan),
            solve_seconds=round(decision.took, 4),
        )

    def _notes(self, decision: PlanDecision) -> list[ClaimNotes]:
        """Those of each NodeClaim of the plan. Probes may ask for what EC2 refused, if it is due.

        What EC2 has refused since is not among it: a claim that was bought on it would get something dearer.
        """
        avoided = decision.avoided
        for_probes = UnavailableOfferings(avoided - decision.probes.due)
        return [
            ClaimNotes(why, for_probes if decision.probes.include(claim) else avoided, usual_price)
            for claim, why, usual_price in zip(
                decision.plan.claims, decision.explanations, decision.usual_prices, strict=True
            )
        ]

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

    def _remember(self, decision: PlanDecision, written: Written) -> None:
        self._waiting.planned(decision.all_pods, decision.waits)
        by_key = {pod.key: pod for pod in decision.all_pods}
        self._refusals.probing(decision.probes.keys(written.claims))
        probes = () if decision.next_probe is None else (decision.next_probe,)
        now, backoffs = self._now(), self._refusals.backoffs()
        due = [at for backoff in backoffs.values() for at in (backoff.probe_at, backoff.until) if at > now]
        if any(at <= now and key not in backoffs for key, at in decision.next_attempts.items()):
            # A refusal ended while the engine solved.
            due.append(now)
        offered_again = min((*due, *probes), default=None)
        unplaced = [by_key[key] for key in decision.plan.unschedulable if key not in decision.postponed]
        self._batcher.record_unschedulable(unplaced, decision.fingerprint, offered_again)
        self._batcher.record_postponed((by_key[key], subject) for key, subject in decision.postponed.items())
        for pool, nodes in Counter(pool for pool, _ in decision.postponed.values()).items():
            metrics.LAUNCHES_POSTPONED.labels(pool).inc(nodes)
        self._batcher.record_pause_event(by_key[key] for key in decision.paused)
        self._batcher.record_engine_failure(by_key[key] for key in decision.failed)
        self._batcher.record_nominated(decision.plan.placements, decision.ready)
        self._batcher.record_bought(pod.uid for claim in written.claims for pod in claim.pods)
        pools = decision.pools
        for unwritten in written.unwritten:
            if unwritten.refusal is not None:  # claims with transient failures are planned in the next batch
                self._batcher.record_refused(unwritten.planned.pods, pools[unwritten.planned.pool])
