"""Collects the pods that need a decision, pending or about to leave their node, and decides when a batch is complete.

Most decisions are read back from the cluster: a pod is decided if a living NodeClaim was created for it. This module
remembers only pods that were planned onto existing nodes or that fit nowhere. After a restart they are planned again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple

from activities import loggers
from activities.clock import utc_now
from activities.cluster_view.interfaces import ClusterView, Fingerprint
from activities.cluster_view.pacing import Pace
from activities.metrics import IGNORED_PODS, QUEUE_DEPTH, UNSCHEDULABLE_PODS
from activities.provisioning.buffers import BufferRoom
from activities.provisioning.launch_refusals import LaunchRefusals
from activities.provisioning.plan_answers import (
    NOMINATED_FOR,
    WITHOUT_LIMIT,
    AnswerValidity,
    PlanAnswer,
    growing,
    relevant_part,
    scheduling_key,
)
from activities.provisioning.unused_nodes import UnusedNodes
from tenon.apis.nodepool import NodePool
from tenon.kube.pod import Pod
from tenon.messages.provisioning import AwaitBatchInput, BatchSummary, PurchasePause

log = loggers.PROVISIONER

REFUSED_FOR = timedelta(minutes=3)
"""After this time, a pod that kube-scheduler does not place on the existing nodes where it should fit gets an event."""
MAX_REFUSED = 10
"""How many such pods a plan names."""
BOUGHT_FOR = timedelta(seconds=2)
"""How long the cache may take to show a new NodeClaim. After that, the claim itself says which pods it is for."""
PLANNED_WITHIN = timedelta(seconds=30)
"""How long a plan may take after its batch is complete."""
FIRST_RETRY = timedelta(seconds=10)
MAX_RETRY = timedelta(minutes=1)
"""The longest pause before a pod that fits nowhere is planned again. A futile plan costs a few Temporal actions and, on
5,000 nodes, two seconds of a core, so once a minute is cheap. It bounds the wait of a pod after a change that the
fingerprint does not cover."""
MAX_NOMINATION = timedelta(minutes=5)
MAX_ISOLATED = 30
"""How many kinds of pods that were set apart come back one after another. The remaining kinds come back together."""
MAX_ISOLATION = timedelta(minutes=5)
"""The longest pause for pods on which the engine failed or whose NodeClaim the API server refused."""
SHARE_OF_CHECKS = 0.02
"""The fraction of a core for checking which pods are undecided. While thousands of pods start on nodes that were bought
for them, almost each of their events leads to a check that finds nothing.
"""
FIRST_POSTPONED, MAX_POSTPONED = timedelta(seconds=5), timedelta(seconds=30)
"""The time after which a pod is planned again whose NodePool launches others first. It doubles."""
CLOSES_WITHIN = 50.0
"""How many seconds after the wait for a first pod a batch may close. The activity times out 60 seconds after that wait
(`workflows/options.py`), so the wait is shorter if batches may last longer than this."""


class BatchWindow(NamedTuple):
    """How long a batch stays open, in seconds: ``idle`` without a new pod, ``longest`` in total.

    The process that collects the pods sets it, because the workflow outlives changes of the settings.
    """

    idle: float
    longest: float


class Batcher:
    """Knows which pods wait for a decision, and collects them into batches."""

    def __init__(
        self,
        view: ClusterView,
        now: Callable[[], datetime] = utc_now,
        buffers: BufferRoom | None = None,
        *,
        window: BatchWindow,
        refusals: LaunchRefusals | None = None,
    ) -> None:
        """``buffers``: what CapacityBuffers request. A buffer without room needs a decision like a pod.

        ``refusals``: what EC2 refuses, kept for other parts of the process.
        """
        self.refusals = refusals or LaunchRefusals(now=now)
        """The planner uses the same ones, because what it learns decides which pods need a decision again."""
        self.buffers = buffers or BufferRoom()
        """The planner uses the same room, because a buffer that it found room for needs no decision."""
        self._window = window
        self._view = view
        self._now = now
        self._answers: dict[str, PlanAnswer] = {}
        """By the UID of the pod: what the last plan answered."""
        self._covered_until = WITHOUT_LIMIT
        """When the first NodeClaim ceases to cover a pod that has no answer. No change of the cluster says so."""
        self._turn = 0
        self._pace = Pace(share=SHARE_OF_CHECKS)
        self._renewed_within = timedelta(seconds=window.longest) + PLANNED_WITHIN
        """How long it may take from the time that a pod needs a decision until it has one."""
        self._unused = UnusedNodes(view)
        self._unschedulable: set[str] = set()
        """The UIDs of the pending pods that fitted nowhere in the last plan for them."""
        self._kept_nodes: dict[str, datetime] = {}
        """Node name to the time until which the node is kept, because a pod that was promised it is gone and its
        controller may create a replacement."""

    def undecided(self) -> list[Pod]:
        """The pods without a valid answer: pending, about to leave their node, or of a buffer without room."""
        with self._pace.measure():
            return self._undecided()

    def _undecided(self) -> list[Pod]:
        now = self._now()
        fingerprint = self._view.fingerprint()
        pending = self._view.pending_pods()
        refused = self.refusals.refused_claims(self._view.launching_claims)
        self._forget_others(pending)
        self._measure(pending)
        self._unused.update(pod for pod in pending if not pod.node_name)
        validity = AnswerValidity(self._view, self.refusals, self._unused, now, fingerprint, refused)
        self._covered_until = WITHOUT_LIMIT
        undecided: list[Pod] = []
        for pod in (*pending, *self.buffers.lacking()):
            if validity.holds(pod, self._answers.get(pod.uid)):
                continue
            covered_until = validity.covered_until(pod)
            if covered_until is None:
                undecided.append(pod)
            else:
                self._covered_until = min(self._covered_until, covered_until)
        return undecided

    def count_unschedulable(self, pods: Collection[Pod], unschedulable: Collection[str]) -> None:
        """Count the pods of a plan that fitted nowhere, until they have a place or are gone.

        ``unschedulable``: their keys.
        """
        self._unschedulable -= {pod.uid for pod in pods}
        self._unschedulable |= {pod.uid for pod in pods if pod.key in unschedulable}
        self._measure(self._view.pending_pods())

    def _measure(self, pending: Iterable[Pod]) -> None:
        waiting = [pod for pod in pending if not pod.node_name]
        self._unschedulable &= {pod.uid for pod in waiting}
        UNSCHEDULABLE_PODS.labels("provisioner").set(len(self._unschedulable))
        IGNORED_PODS.set(sum(bool(pod.unsupported) for pod in waiting))

    def adopt(self, pauses: Iterable[PurchasePause]) -> None:
        """Go on with the pauses that the workflow has kept from an earlier process."""
        self._unused.adopt(pauses)

    def pauses(self) -> list[PurchasePause]:
        """What the workflow keeps for the next process."""
        return self._unused.kept()

    def count_unused_nodes(self, pods: Iterable[Pod]) -> dict[str, PurchasePause]:
        """Count the nodes that became ready without the pods of a plan's new nodes. Returns the pauses, by pod key.

        Nothing is bought for these pods until their pause is over.
        """
        return self._unused.count_unused_nodes(pods, self._now())

    def record_scheduler_reason(self, group: str, refusal: str) -> None:
        """Record why kube-scheduler does not place the pods of a group. The workflow answers queries with it."""
        self._unused.explained(group, refusal)

    def record_pause_event(self, pods: Iterable[Pod]) -> None:
        """Record that these pods got an event about their pause. They come back when it ends."""
        now = self._now()
        for pod in pods:
            pause = self._unused.pause_of(pod, now)
            if pause is not None and pause.until is not None:
                self._answers[pod.uid] = PlanAnswer(pause.until, self._attempts(pod), None, pod=pod, paused=True)

    def record_nominated(self, placements: Mapping[str, Iterable[Pod]], ready: Collection[str] = ()) -> None:
        """Record pods that were planned onto nodes (by name) that exist or are starting. Skip the pods of buffers.

        ``ready``: the nodes that kube-scheduler can use now.
        """
        now = self._now()
        for node, pods in placements.items():
            for pod in (pod for pod in pods if not pod.buffer):
                attempts = self._attempts(pod) if pod.node_name else 0  # a drain may take its time
                pause = growing(NOMINATED_FOR, attempts, MAX_NOMINATION)
                since = self._refused_since(pod, now) if node in ready and not pod.node_name else None
                self._answers[pod.uid] = PlanAnswer(now + pause, attempts, None, node, refused_since=since)

    def _refused_since(self, pod: Pod, now: datetime) -> datetime:
        answer = self._answers.get(pod.uid)
        return now if answer is None or answer.refused_since is None else answer.refused_since

    def refused_on_nodes(self, pods: Iterable[Pod]) -> list[tuple[Pod, str, datetime]]:
        """The pods that kube-scheduler has left waiting for long although they fit on an existing node.

        With each: the node of the last plan, and the time of the first plan.
        """
        until = self._now() - REFUSED_FOR
        answers = ((pod, self._answers.get(pod.uid)) for pod in pods)
        refused = (
            (pod, answer.node, answer.refused_since)
            for pod, answer in answers
            if answer is not None and answer.refused_since is not None and answer.refused_since <= until
        )
        return list(islice(refused, MAX_REFUSED))

    def reserved(self) -> dict[str, list[Pod]]:
        """The nominated pods that still wait, by the current name of their node.

        A plan counts their room as taken and applies affinity and spread rules to them. When a pod's nomination
        expires, a new plan may put it anywhere.
        """
        now = self._now()
        reserved: dict[str, list[Pod]] = {}
        for pod in self._view.pending_pods():
            answer = self._answers.get(pod.uid)
            if answer is None or not answer.node or now >= answer.again_at:
                continue
            if place := self._view.place_of(answer.node):
                reserved.setdefault(place, []).append(pod)
        return reserved

    def nominated_nodes(self) -> set[str]:
        """The names of the Nodes and NodeClaims that pods are on their way to.

        A promise lasts longer than a reservation (`reserved`), so that a node does not count as empty while its pods,
        or the replacements of evicted pods, are planned again.
        """
        now = self._now()
        self._forget_others(self._view.pending_pods())
        self._kept_nodes = {node: until for node, until in self._kept_nodes.items() if now < until}
        since = now - self._renewed_within
        return {a.node for a in self._answers.values() if a.node and since < a.again_at} | self._kept_nodes.keys()

    def record_bought(self, uids: Iterable[str]) -> None:
        """Record that a NodeClaim was written for these pods. If it fails, they are planned again at once."""
        until = self._now() + BOUGHT_FOR
        for uid in uids:
            self._answers[uid] = PlanAnswer(until, 0, None)

    def record_unschedulable(
        self, pods: Iterable[Pod], fingerprint: Fingerprint, offered_again: datetime | None = None
    ) -> None:
        """Record pods that fit nowhere. They are planned again when the first of these happens:

        - the part of ``fingerprint`` that affects them changes;
        - their own requirements change, for example because their volumes were created or deleted;
        - a pause is over, which grows with each attempt;
        - an offering that this plan had to avoid becomes available again (``offered_again``);
        - EC2 launches an instance of an offering that it refused.
        """
        now = self._now()
        in_shortage = any(backoff.refused_at is not None for backoff in self.refusals.backoffs().values())
        for pod in pods:
            attempts = self._attempts(pod)
            pause = growing(FIRST_RETRY, attempts, MAX_RETRY)
            if offered_again is not None:
                pause = min(pause, max(FIRST_RETRY, offered_again - now))
            # A pod that must leave its node still runs, so a change of the claims is not worth another plan for it.
            changes = None if pod.node_name else relevant_part(pod, fingerprint)
            self._answers[pod.uid] = PlanAnswer(now + pause, attempts, changes, pod=pod, in_shortage=in_shortage)

    def capacity_is_back(self) -> None:
        """Plan all pods again that fitted nowhere while EC2 refused offerings of which it launches instances again."""
        self._answers = {uid: answer for uid, answer in self._answers.items() if not answer.in_shortage}

    def record_postponed(self, pods: Iterable[tuple[Pod, tuple[str, str]]]) -> None:
        """Record pods whose nodes wait until their NodePool, in a capacity type, has launched others."""
        now = self._now()
        for pod, subject in pods:
            before = self._answers.get(pod.uid)
            attempts = before.attempts + 1 if before is not None and before.launches_after is not None else 1
            again_at = now + growing(FIRST_POSTPONED, attempts, MAX_POSTPONED)
            self._answers[pod.uid] = PlanAnswer(again_at, attempts, None, pod=pod, launches_after=subject)

    def record_refused(self, pods: Iterable[Pod], pool: NodePool) -> None:
        """Record that the API server refused this pool's NodeClaim for these pods. ``pool``: as the plan read it.

        They are planned again when the pool or their own requirements change, or after a pause that grows with each
        attempt.
        """
        self.record_engine_failure(pods, (pool.metadata.name, pool.metadata.generation))

    def record_engine_failure(self, pods: Iterable[Pod], pool: tuple[str, int | None] | None = None) -> None:
        """Record that the engine failed on these pods.

        They are planned again when their requirements change, or after a pause that grows with each attempt. One of
        them may cause the failure of all, so the kinds of pods come back one after another, in separate batches.
        ``pool``: a NodePool and its generation. The pods are also planned again when the generation changes.
        """
        now, apart = self._now(), timedelta(seconds=2 * self._window.idle)
        kinds: dict[object, list[Pod]] = {}
        for pod in pods:
            kinds.setdefault((self._attempts(pod), repr(pod.required_terms), repr(scheduling_key(pod))), []).append(pod)
        for number, (_, alike_pods) in enumerate(sorted(kinds.items(), key=lambda kind: str(kind[0]))):
            for pod in alike_pods:
                attempts = self._attempts(pod)
                pause = growing(FIRST_RETRY, attempts, MAX_ISOLATION) + min(number, MAX_ISOLATED) * apart
                self._answers[pod.uid] = PlanAnswer(now + pause, attempts, None, pod=pod, pool=pool)

    def _attempts(self, pod: Pod) -> int:
        """The number of failed attempts for this pod, including the current one."""
        return self._answers[pod.uid].attempts + 1 if pod.uid in self._answers else 1

    async def await_batch(self, batch_input: AwaitBatchInput) -> BatchSummary:
        """Wait for an undecided pod, then until no new pod came for the idle time or the window is over."""
        self.refusals.update(batch_input.breakers)
        self.adopt(batch_input.pauses)
        QUEUE_DEPTH.labels("provisioner").set(0)
        loop = asyncio.get_running_loop()
        give_up = loop.time() + batch_input.wait_seconds - max(0.0, self._window.longest - CLOSES_WITHIN)
        self._turn += 1
        turn = self._turn
        while not (self._view.synced() and (pods := self.undecided())):
            seconds_left = give_up - loop.time()
            if seconds_left <= 0 or turn != self._turn:  # a newer call ends an older one
                return BatchSummary(pauses=self.pauses())
            await self._wait_for_change(min(seconds_left, self._until_next_retry()))
        opened_at, opened, newest = self._now(), loop.time(), loop.time()
        pod_uids = {pod.uid for pod in pods}
        log.info("The provisioner waits to batch additional pods", extra={"pod-count": _in_cluster(pods)})
        while True:
            close = min(newest + self._window.idle, opened + self._window.longest)
            if loop.time() >= close:
                break
            await self._wait_for_change(close - loop.time())
            pods = self.undecided()
            fresh = {pod.uid for pod in pods} - pod_uids
            if fresh:
                pod_uids |= fresh
                newest = loop.time()
        pods = self.undecided()
        QUEUE_DEPTH.labels("provisioner").set(waiting := _in_cluster(pods))
        # The workflow plans only if the number is positive, so if only buffers need room, count their pods.
        return BatchSummary(pods=waiting or len(pods), opened_at=opened_at, pauses=self.pauses())

    async def _wait_for_change(self, seconds: float) -> None:
        """Return after a change, when the pace allows another check, at the latest after ``seconds``."""
        end = asyncio.get_running_loop().time() + seconds
        await self._view.changed(seconds)
        await self._pace.wait(end - asyncio.get_running_loop().time())

    def _forget_others(self, pending: Iterable[Pod]) -> None:
        """Drop all answers except those for these pods and for the pods of buffers."""
        live_uids = {pod.uid for pods in (pending, self.buffers.pods()) for pod in pods}
        until = self._now() + self._renewed_within
        for uid in [uid for uid in self._answers if uid not in live_uids]:
            answer = self._answers.pop(uid)
            if answer.node:
                self._kept_nodes[answer.node] = until

    def _until_next_retry(self) -> float:
        now = self._now()
        # Skip expired answers: a claim covers their pods.
        ends = (self._covered_until, *(answer.again_at for answer in self._answers.values()))
        return max(0.05, min([60.0, *((end - now).total_seconds() for end in ends if end > now)]))


def _in_cluster(pods: Iterable[Pod]) -> int:
    """How many of the pods exist in the cluster, as opposed to the pods that stand for a buffer."""
    return sum(not pod.buffer for pod in pods)
