"""Writes events about the result of a plan for each pod: the first few at once, the others in the background.

Many pods must not delay the next plan or flood the API server with events. Therefore all events but the first few wait
in a queue. Pods that have no event yet come first, so that each pod gets one, regardless of its name.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from activities import loggers
from activities.kubernetes.event_references import pod_reference
from activities.kubernetes.events import EventPublisher
from tenon.apis import labels
from tenon.kube.event_reasons import EventReason
from tenon.kube.pod import Pod
from tenon.kube.pool_reason_json import encode
from tenon.kube.pool_reasons import NoPlace
from tenon.scheduling.explanation.waiting import event_message
from tenon.scheduling.model import Plan

log = loggers.PROVISIONER

CONCURRENCY = 50
"""The number of events that a plan waits for."""
PAUSE = 0.05
"""Seconds between the events that are written in the background."""
UNREACHED = "the plan ran out of time before it reached the pod; the next batch starts at once and includes it"
_REMEMBERED = 50_000
_PLACES, _PODS_OF_A_PLACE = 50, 10
"""The maximum number of nodes with Nominated events, and of such events per node. Their rate is limited anyway."""


@dataclass(frozen=True, slots=True)
class _PodEvent:
    pod: Pod
    reason: EventReason
    message: str
    why: NoPlace | None = None
    """What the message says, if it says why no node is bought for the pod."""


class PodEvents:
    """Writes the events of the pods in plans."""

    def __init__(self, recorder: EventPublisher) -> None:
        self._recorder = recorder
        self._first: dict[str, _PodEvent] = {}
        """Pod UID to the next event of a pod that has no event yet."""
        self._again: dict[str, _PodEvent] = {}
        self._reported: OrderedDict[str, None] = OrderedDict()
        self._writing: asyncio.Task[None] | None = None

    def close(self) -> None:
        """Give up the events that are not written yet: the next leader writes its own, and these would replace them."""
        if self._writing is not None:
            self._writing.cancel()

    async def publish(
        self,
        plan: Plan,
        pods: Iterable[Pod],
        claims: Iterable[str],
        in_flight: Collection[str] = (),
        lacking: Mapping[str, str] | None = None,
        doubts: Mapping[str, str] | None = None,
    ) -> None:
        """Publish the plan's result for its pods. Returns after the first events; the others follow in the background.

        Args:
            plan: the plan.
            pods: the pods of the plan that wait for a node.
            claims: the names of the plan's NodeClaims.
            in_flight: the nodes with placements that are NodeClaims without a Node so far.
            lacking: what EC2 has no capacity for, by the key of the pod, for pods of the plan's NodeClaims.
            doubts: why kube-scheduler may not place the pod there, by the key of the pod.
        """
        for event in _events(plan, {pod.key: pod for pod in pods}, claims, in_flight, lacking or {}, doubts or {}):
            self._put(event)
        pod_keys = [pod_key for _ in range(CONCURRENCY) if (pod_key := self._next()) is not None]
        for pod_key in pod_keys:
            if pod_key.reason is EventReason.FAILED_SCHEDULING:
                log.warning(
                    "The provisioner could not schedule a pod", extra={"pod": pod_key.pod.key, "error": pod_key.message}
                )
        await asyncio.gather(*map(self._publish, pod_keys))
        if (self._first or self._again) and (self._writing is None or self._writing.done()):
            self._writing = asyncio.create_task(self._rest(), name="pod events")

    async def _rest(self) -> None:
        while (event := self._next()) is not None:
            if await self._publish(event):
                await asyncio.sleep(PAUSE)

    def _put(self, event: _PodEvent) -> None:
        """Queue an event. It replaces a queued event of the same pod and keeps its place in the queue."""
        uid = event.pod.uid
        queue = self._again if uid in self._reported else self._first
        queue[uid] = event

    def _next(self) -> _PodEvent | None:
        for queue in (self._first, self._again):
            if queue:
                return queue.pop(next(iter(queue)))
        return None

    async def _publish(self, event: _PodEvent) -> bool:
        self._reported[event.pod.uid] = None
        self._reported.move_to_end(event.pod.uid)
        while len(self._reported) > _REMEMBERED:
            self._reported.popitem(last=False)
        reference = pod_reference(event.pod)
        if event.why is None:
            return await self._recorder.publish(reference, event.reason, event.message)
        annotations = {labels.NO_PLACE: encode(event.why)}
        return await self._recorder.publish(reference, event.reason, event.message, annotations=annotations)


def _events(
    plan: Plan,
    waiting: dict[str, Pod],
    claims: Iterable[str],
    in_flight: Collection[str],
    lacking: Mapping[str, str],
    doubts: Mapping[str, str],
) -> Iterable[_PodEvent]:
    for key, why in plan.unschedulable.items():
        if key in waiting:
            message, part = event_message(why, key)
            yield _PodEvent(waiting[key], EventReason.FAILED_SCHEDULING, message, part)
    for key in lacking.keys() & waiting.keys():
        yield _PodEvent(waiting[key], EventReason.FAILED_SCHEDULING, lacking[key])
    for key in sorted(plan.unreached & waiting.keys()):
        yield _PodEvent(waiting[key], EventReason.FAILED_SCHEDULING, UNREACHED)
    places = [(f"nodeclaim/{name}", planned.pods) for name, planned in zip(claims, plan.claims, strict=True)]
    places = places[:_PLACES]
    places += [
        (f"{'nodeclaim' if node in in_flight else 'node'}/{node}", placed)
        for node, placed in list(plan.placements.items())[:_PLACES]
    ]
    for place, placed in places:
        for pod in placed[:_PODS_OF_A_PLACE]:
            if pod.key in waiting and pod.key not in lacking:
                doubt = f", but {doubts[pod.key]}" if pod.key in doubts else ""
                yield _PodEvent(pod, EventReason.NOMINATED, f"Pod should schedule on: {place}{doubt}")
