"""The rounds of a drain: which pods to evict, which evictions were refused, and when to retry them.

Refusals are kept only for one attempt of the activity, so a retry on another worker starts with new evictions.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from activities import metrics
from activities.kubernetes.bounded_concurrency import bounded
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ApiUnreachableError
from activities.kubernetes.event_references import pod_reference
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.resources import PODS
from activities.node.nodes import Budgets
from tenon.evolve import evolve
from tenon.kube.event_reasons import EventReason
from tenon.kube.pod_annotations import protection_mistake
from tenon.kube.records import PodRecord
from tenon.kube.structs import Object
from tenon.kube.timestamps import time_text
from tenon.messages.node_steps import BlockedPods, DrainInput
from tenon.node import drain as decide
from tenon.node.drain import ActionKind
from tenon.node.drain_blockers import REPORTED_BLOCKAGES, deleted_at, grouped, refused_eviction, sentence
from tenon.sentences import first_clauses

CONCURRENCY = 20
"""The maximum number of requests in flight for one node."""
MAX_RETRY_SECONDS = 10
"""The maximum pause before a refused eviction is retried. The pauses are 1, 2, 4 ... seconds."""
MAX_ASKED_SECONDS = 60.0
"""The maximum pause that the API server may ask for."""


class Evictor:
    """Evicts pods in their waves, and reports what blocks the others."""

    def __init__(self, kube: Kube, recorder: EventPublisher, node: Object, drain_input: DrainInput) -> None:
        self.evicted_pods: list[PodRecord] = []
        self._because = f": {drain_input.why}" if drain_input.why else ""
        self._kube = kube
        self._recorder = recorder
        self._node = node
        self._drain_input = drain_input
        self._blocked: dict[str, BlockedPods] = {}
        self._undeletable: set[str] = set()
        self._refusals: dict[str, int] = {}
        self._retry_at: dict[str, datetime] = {}
        self._budgets = Budgets(kube)

    def blocked(self, waited: Sequence[PodRecord]) -> list[BlockedPods]:
        """Why the remaining pods are blocked, in the order of ``waited``."""
        return [self._blocked[pod.uid] for pod in waited if pod.uid in self._blocked]

    def next_try(self, waited: Sequence[PodRecord]) -> datetime | None:
        """When the next refused eviction of these pods is retried."""
        return min((self._retry_at[pod.uid] for pod in waited if pod.uid in self._retry_at), default=None)

    def gives_up(self, waited: Sequence[PodRecord], now: datetime) -> bool:
        """Whether the node's grace period is over and the API server refuses to delete every remaining pod."""
        force_at = self._drain_input.force_at
        if force_at is None or now - force_at < decide.STUCK_AFTER:
            return False
        return all(pod.uid in self._undeletable for pod in waited)

    async def act(self, waited: Sequence[PodRecord], now: datetime) -> None:
        """Run one round over the remaining pods."""
        turn = decide.current_wave(waited)
        held_before = set(self._blocked)

        async def one(pod: PodRecord) -> None:
            await self._evict_one(pod, now, turn=decide.wave(pod) == turn)

        await bounded(waited, CONCURRENCY, one)
        await self._publish([pod for pod in waited if pod.uid in self._blocked and pod.uid not in held_before])

    async def _publish(self, held_pods: Sequence[PodRecord]) -> None:
        """Publish on each pod what blocks it, and on the Node what blocks the drain and when the drain is forced."""
        if not held_pods:
            return

        async def publish_on(pod: PodRecord) -> None:
            await self._recorder.publish(
                pod_reference(pod.pod), EventReason.FAILED_DRAINING, sentence(self._blocked[pod.uid])
            )

        await bounded(held_pods, CONCURRENCY, publish_on)
        sentences = [sentence(blocked) for blocked in grouped(self._blocked[pod.uid] for pod in held_pods)]
        text = first_clauses(sentences, REPORTED_BLOCKAGES)
        await self._recorder.publish(self._node, EventReason.FAILED_DRAINING, text)
        if self._drain_input.force_at is not None and not self._drain_input.force:
            text = f"all pods will be deleted by {time_text(self._drain_input.force_at)}, whatever protects them"
            await self._recorder.publish(self._node, EventReason.TERMINATION_GRACE_PERIOD_EXPIRING, text)

    async def _evict_one(self, pod: PodRecord, now: datetime, *, turn: bool) -> None:
        uid = pod.uid
        action = decide.decide(pod, now, turn=turn, force_at=self._drain_input.force_at, force=self._drain_input.force)
        if action.kind is ActionKind.EVICT and uid in self._retry_at and now < self._retry_at[uid]:
            return
        self._blocked.pop(uid, None)
        try:
            if action.kind is ActionKind.EVICT:
                await self._evict(pod, now)
            elif action.kind is ActionKind.DELETE:
                await self._delete(pod, action.grace_seconds)
            elif action.blocked is not None:
                self._blocked[uid] = action.blocked
        except ApiUnreachableError:
            raise
        except ApiError as error:  # an admission policy that protects one pod must not stop the others
            deleting = action.kind is ActionKind.DELETE
            if deleting:
                self._undeletable.add(uid)
            why = f"cannot be {'deleted' if deleting else 'evicted'}: {error.message}"
            self._refused(pod, now, BlockedPods(pods=(pod.key,), why=why))

    async def _evict(self, pod: PodRecord, now: datetime) -> None:
        if mistake := protection_mistake(pod):
            await self._recorder.publish(pod_reference(pod.pod), EventReason.INVALID_DO_NOT_DISRUPT, mistake)
        answer = await self._kube.evict(pod.pod.namespace, pod.pod.name, uid=pod.uid)
        metrics.POD_EVICTIONS.labels(str(answer.code)).inc()
        if answer.outcome == "evicted":
            self.evicted_pods.append(pod)
            text = f"evicted from Node {self._node['metadata']['name']}{self._because}"
            await self._recorder.publish(pod_reference(pod.pod), EventReason.EVICTED, text)
        elif answer.outcome != "gone":
            budgets, by_budget = await self._budgets.selecting(pod), answer.outcome == "blocked"
            refusal = refused_eviction(pod, budgets, by_budget=by_budget, answer=answer.message)
            self._refused(pod, now, refusal, retry_after=answer.retry_after)

    async def _delete(self, pod: PodRecord, grace_seconds: int | None) -> None:
        await self._kube.delete(
            PODS, pod.pod.name, namespace=pod.pod.namespace, grace_seconds=grace_seconds, uid=pod.uid
        )
        self._undeletable.discard(pod.uid)
        if pod.deleting:
            return
        self.evicted_pods.append(pod)
        node = self._node["metadata"]["name"]
        text = f"deleted with {grace_seconds} s of grace, because its Node {node} must be removed{self._because}"
        await self._recorder.publish(pod_reference(pod.pod), EventReason.DISRUPTED, text, "Warning")

    def _refused(self, pod: PodRecord, now: datetime, refusal: BlockedPods, *, retry_after: float = 0.0) -> None:
        uid = pod.uid
        force_at = None if self._drain_input.force else self._drain_input.force_at
        self._blocked[uid] = evolve(refusal, deleted_at=deleted_at(pod, force_at, now))
        count = self._refusals.get(uid, 0)
        self._refusals[uid] = count + 1
        wait = max(MAX_RETRY_SECONDS if count > 3 else 2**count, min(retry_after, MAX_ASKED_SECONDS))
        self._retry_at[uid] = now + timedelta(seconds=wait)
