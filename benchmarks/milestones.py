"""Records when pods and NodeClaims reach each stage. It uses watches, which load the sandbox as little as possible."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import NODECLAIMS, PODS, Resource

Object = dict[str, Any]
POD_STAGES = ("created", "refused by kube-scheduler", "bound", "Running")
CLAIM_STAGES = ("created", "Launched", "Registered", "Initialized")


def pod_stages(pod: Object) -> Iterator[str]:
    """Yield the stages that a pod has reached."""
    status = pod.get("status") or {}
    yield "created"
    if any(c["type"] == "PodScheduled" and c.get("reason") == "Unschedulable" for c in status.get("conditions") or ()):
        yield "refused by kube-scheduler"
    if (pod.get("spec") or {}).get("nodeName"):
        yield "bound"
    if status.get("phase") == "Running":
        yield "Running"


def claim_stages(claim: Object) -> Iterator[str]:
    """Yield the stages that a NodeClaim has reached."""
    yield "created"
    for condition in (claim.get("status") or {}).get("conditions") or ():
        if condition["status"] == "True" and condition["type"] in CLAIM_STAGES:
            yield condition["type"]


@dataclass(slots=True)
class Milestones:
    """When each object was first seen at each stage, and the current objects."""

    stages: Callable[[Object], Iterator[str]]
    clock: Callable[[], float] = time.monotonic
    objects: dict[str, Object] = field(default_factory=dict)
    reached: dict[str, dict[str, float]] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, event: Object) -> None:
        """Record one watch event."""
        observations = event["object"]
        uid = observations["metadata"]["uid"]
        if event["type"] == "DELETED":
            self.objects.pop(uid, None)
        else:
            self.objects[uid] = observations
        for stage in self.stages(observations):
            self.reached.setdefault(stage, {}).setdefault(uid, self.clock())
        self.changed.set()

    def count(self, stage: str) -> int:
        """Number of objects that reached a stage."""
        return len(self.reached.get(stage, ()))

    def spread(self, stage: str, began: float) -> tuple[float, float, float] | None:
        """Seconds from ``began`` until the first, median and last object reached a stage; None if no object did."""
        times = sorted(at - began for at in self.reached.get(stage, {}).values())
        return (times[0], times[(len(times) - 1) // 2], times[-1]) if times else None

    async def until(self, stage: str, count: int, seconds: float) -> None:
        """Wait until this many objects have reached a stage.

        Raises:
            TimeoutError: they did not within ``seconds``.
        """
        async with asyncio.timeout(seconds):
            while self.count(stage) < count:
                self.changed.clear()
                await self.changed.wait()

    async def watch(self, kube: Kube, resource: Resource, selector: str = "") -> None:
        """Follow a resource until cancelled. A broken watch restarts with the current objects."""
        query = {"watch": "true", **({"labelSelector": selector} if selector else {})}
        while True:
            with contextlib.suppress(ApiError):
                async for line in kube.stream(resource.path(), query, idle_seconds=3600):
                    event = json.loads(line)
                    if event["type"] != "ERROR":
                        self.note(event)
            await asyncio.sleep(0.2)


async def followed(kube: Kube, selector: str) -> tuple[Milestones, Milestones, list[asyncio.Task[None]]]:
    """Return the milestones of labelled pods and of all NodeClaims, and their watch tasks for the caller to cancel."""
    pods, claims = Milestones(pod_stages), Milestones(claim_stages)
    watching = [
        asyncio.create_task(pods.watch(kube, PODS, selector)),
        asyncio.create_task(claims.watch(kube, NODECLAIMS)),
    ]
    return pods, claims, watching
