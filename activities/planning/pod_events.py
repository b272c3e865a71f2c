"""Says what a plan means for each pod, as events: some at once, the others in their turn while plans go on.

A crowd of pods may not hold up the next plan, and may not fill the API server with events at one stroke. So all but the
first few wait in a queue, in which pods that were never told anything come first: each has its turn, whatever its name.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from activities.kubernetes.events import EventRecorder
from tenon.kube.pod import Pod
from tenon.scheduling.model import Plan

log = logging.getLogger("controller.provisioner")

AT_ONCE = 50
"""Events for which a plan waits."""
PAUSE = 0.05
"""Seconds between the events that are written later."""
UNREACHED = "the time for one plan was over before its turn; it is planned in the next batch, at once"
_REMEMBERED = 50_000
_PLACES, _PODS_OF_A_PLACE = 50, 10
"""Of so many nodes so many pods are told where they go; the rate of these events is low in any case."""


@dataclass(frozen=True, slots=True)
class _Word:
    pod: Pod
    reason: str
    message: str
    warning: bool = False


class PodEvents:
    """The events of pods that plans were made for."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder
        self._first: dict[str, _Word] = {}
        """By UID, what pods are to hear that never heard anything."""
        self._again: dict[str, _Word] = {}
        self._told: OrderedDict[str, None] = OrderedDict()
        self._writing: asyncio.Task[None] | None = None

    async def tell(
        self, plan: Plan, pods: Iterable[Pod], claims: Iterable[str], in_flight: Collection[str] = ()
    ) -> None:
        """Publish what became of the pods; returns after the first events, the others follow.

        Args:
            plan: the plan.
            pods: those pods of the plan that wait for a node.
            claims: the names of the plan's NodeClaims.
            in_flight: those of the nodes with placements that are NodeClaims without a Node so far.
        """
        for word in _words(plan, {pod.key: pod for pod in pods}, claims, in_flight):
            self._put(word)
        chosen = [one for _ in range(AT_ONCE) if (one := self._next()) is not None]
        for one in chosen:
            if one.warning:
                log.warning("could not schedule pod", extra={"pod": one.pod.key, "reason": one.message})
        await asyncio.gather(*map(self._publish, chosen))
        if (self._first or self._again) and (self._writing is None or self._writing.done()):
            self._writing = asyncio.create_task(self._rest())

    async def finished(self) -> None:
        """Return when no event waits to be written."""
        if self._writing is not None:
            await self._writing

    async def _rest(self) -> None:
        while (word := self._next()) is not None:
            if await self._publish(word):
                await asyncio.sleep(PAUSE)

    def _put(self, word: _Word) -> None:
        """What waits for a pod already gives way to the new word, which keeps its place in the queue."""
        uid = word.pod.uid
        queue = self._again if uid in self._told else self._first
        queue[uid] = word

    def _next(self) -> _Word | None:
        for queue in (self._first, self._again):
            if queue:
                return queue.pop(next(iter(queue)))
        return None

    async def _publish(self, word: _Word) -> bool:
        self._told[word.pod.uid] = None
        self._told.move_to_end(word.pod.uid)
        while len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)
        return await self._recorder.publish(
            _reference(word.pod), word.reason, word.message, "Warning" if word.warning else "Normal"
        )


def _words(plan: Plan, waiting: dict[str, Pod], claims: Iterable[str], in_flight: Collection[str]) -> Iterable[_Word]:
    for key, why in plan.unschedulable.items():
        if key in waiting:
            yield _Word(waiting[key], "FailedScheduling", why, warning=True)
    for key in sorted(plan.unreached & waiting.keys()):
        yield _Word(waiting[key], "FailedScheduling", UNREACHED, warning=True)
    places = [(f"nodeclaim/{name}", planned.pods) for name, planned in zip(claims, plan.claims, strict=True)]
    places = places[:_PLACES]
    places += [
        (f"{'nodeclaim' if node in in_flight else 'node'}/{node}", placed)
        for node, placed in list(plan.placements.items())[:_PLACES]
    ]
    for place, placed in places:
        for pod in placed[:_PODS_OF_A_PLACE]:
            if pod.key in waiting:
                yield _Word(pod, "Nominated", f"Pod should schedule on: {place}")


def _reference(pod: Pod) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
    }
