"""A cluster with NodeSchedules: the real controller, cache and planner, on a clock that tests move."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from zoneinfo import ZoneInfo

from activities.kubernetes.resources import NODECLAIMS, NODEPOOLS, NODESCHEDULES, Resource
from activities.provisioning.batching import Batcher
from activities.provisioning.buffers import BufferRoom
from activities.provisioning.planner import BatchPlanner
from tenon.apis import labels
from tenon.kube.decode import decode_nodeclaim, decode_object
from tenon.kube.timestamps import format_instant
from tenon.messages.provisioning import PlanInput
from tenon.provisioning.planning_policy import PlanPolicy
from tests.activities.node.fake_kube import Clock, FakeKube, Recorder
from tests.activities.provisioning.batch_window import KARPENTERS_WINDOW
from tests.activities.provisioning.fake_view import READY, FakeTypes
from tests.tenon.apis.case import EC2NODECLASS, NODEPOOL
from tests.tenon.schedule.schedules import POOL
from tests.worker.cache.objects import metadata, node
from tests.worker.fake_temporal import Cache
from worker.cache.changes import Topic
from worker.cache.planning_view import PlanningView
from worker.controllers.nodepool.schedules import NodeScheduleController
from worker.controllers.provisioning.capacity_buffer import CapacityBufferController

BERLIN = ZoneInfo("Europe/Berlin")
BOOT = timedelta(seconds=90)
DRAIN = timedelta(seconds=40)
MINUTE = timedelta(minutes=1)


def berlin(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN).astimezone(UTC)


class Server(FakeKube):
    """An API server whose watches tell the cache at once."""

    def __init__(self, cache: Whole) -> None:
        clock = Clock()
        super().__init__(clock)
        self.cache = cache

    async def create(self, resource: Resource, body: dict[str, Any], namespace: str = "") -> dict[str, Any]:
        created = {"creationTimestamp": format_instant(self.cache.instant)}
        return self.add(resource, {**body, "metadata": {**created, **body["metadata"]}})

    async def list(self, resource: Resource, *, label_selector: str = "", **_: Any) -> list[dict[str, Any]]:
        """All, or the NodeClaims of one batch, or of later ones."""
        bodies = await super().list(resource)
        label, is_later, number = re.fullmatch(r"([^=>]*)(>?)=?(.*)", label_selector).groups()  # type: ignore[union-attr]
        if label != labels.BATCH:
            return [body for body in bodies if not label or body["metadata"]["labels"].get(label) == number]
        batches = [(int(body["metadata"]["labels"].get(label) or 0), body) for body in bodies]
        return [body for batch, body in batches if (batch > int(number) if is_later else batch == int(number))]

    def _store(self, resource: Resource, obj: dict[str, Any]) -> None:
        super()._store(resource, obj)
        name, raw = obj["metadata"]["name"], json.dumps(obj).encode()
        if resource is NODECLAIMS:
            self.cache.claims.on_event(name, decode_nodeclaim(raw))
        elif resource is NODESCHEDULES:
            self.cache.schedules.on_event(name, decode_object(raw))
        elif resource is NODEPOOLS:
            self.cache.pools.on_event(name, decode_object(raw))


class Whole(Cache):
    """A cache whose watches are never behind, on the clock of the test."""

    def __init__(self, now: datetime) -> None:
        super().__init__()
        self.instant = now
        self.clock = self._time

    def _time(self) -> float:
        return self.instant.timestamp()

    @property
    def synced(self) -> bool:
        return True

    def silent_for(self, resource: Resource) -> float:
        return 0.0


@dataclass
class Life:
    """A node, from its purchase until its instance ends."""

    began: datetime
    ready: datetime | None = None
    leaves: datetime | None = None
    ended: datetime | None = None


class World:
    """The controllers and the planner, one step after the other, with an EC2 and kubelets that take their time."""

    def __init__(self, now: datetime) -> None:
        self.cache = Whole(now)
        self.server = Server(self.cache)
        self.recorder = Recorder()
        ready = {**EC2NODECLASS, "metadata": metadata("default"), "status": {"conditions": [READY]}}
        self.cache.nodeclasses.on_event("default", decode_object(json.dumps(ready).encode()))
        self.put_pool()
        self.view = PlanningView(self.cache)
        room, kube, recorder = BufferRoom(awaited=True), cast("Any", self.server), cast("Any", self.recorder)
        self.batcher = Batcher(self.view, lambda: self.cache.instant, room, window=KARPENTERS_WINDOW)
        self.planner = BatchPlanner(self.view, FakeTypes(), kube, recorder, self.batcher, lambda: self.cache.instant)
        self.buffers = CapacityBufferController(
            kube, self.cache, self.view, room, PlanPolicy(), self.batcher.reserved, FakeTypes()
        )
        self.schedules = NodeScheduleController(kube, self.cache, self.view, room.rooms, capacity_buffers=False)
        self.changes = self.cache.changes.subscribe([Topic.POOL])
        self.lives: dict[str, Life] = {}
        self.batch = 0

    def put_pool(self, name: str = POOL, **spec: Any) -> None:
        pool = {**NODEPOOL, "metadata": metadata(name, generation=1)}
        pool["spec"] = {**pool["spec"], **spec}
        self.server.add(NODEPOOLS, pool)

    def put_schedule(self, *entries: dict[str, Any], name: str = "hours", **spec: Any) -> None:
        spec = {"timeZone": "Europe/Berlin", "nodePools": [POOL], "entries": list(entries), **spec}
        before = self.server.objects.get((NODESCHEDULES.plural, "", name), {"metadata": {"generation": 0}})
        generation = before["metadata"]["generation"] + 1
        self.server.add(NODESCHEDULES, {"metadata": {"name": name, "generation": generation}, "spec": spec})

    @property
    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = self.server.objects["nodeschedules", "", "hours"]["status"]
        return status

    def applied(self) -> tuple[str, str]:
        (condition,) = (entry for entry in self.status["conditions"] if entry["type"] == "Applied")
        return condition["status"], condition["message"]

    async def look(self) -> None:
        """Everything that decides has its turn, and the rest of the world goes on."""
        self.server.clock.instant = self.cache.instant
        await self.schedules.reconcile(())
        await self.buffers.reconcile([(Topic.POOL, POOL)])
        self.batch += 1
        await self.planner.plan(PlanInput(cluster="c", batch=self.batch))
        self._machines()

    def _machines(self) -> None:
        now = self.cache.instant
        for name in self.server.names(NODECLAIMS):
            life, body = self.lives.setdefault(name, Life(now)), self.server.objects["nodeclaims", "", name]
            if body["metadata"].get("deletionTimestamp"):
                life.leaves = life.leaves or now
            if life.ready is None and now >= life.began + BOOT:
                life.ready = now
                self._joins(name, body)
            if life.leaves is not None and now >= life.leaves + DRAIN:
                life.ended = now
                del self.server.objects["nodeclaims", "", name]
                self.cache.claims.on_event(name, None)
                self.cache.nodes.on_event(name, None)

    def _joins(self, name: str, body: dict[str, Any]) -> None:
        since = {"status": "True", "lastTransitionTime": format_instant(self.cache.instant)}
        conditions = [{"type": kind, **since} for kind in ("Launched", "Registered", "Initialized")]
        created = format_instant(self.lives[name].began)
        status = {"providerID": f"aws:///us-west-2a/i-{name}", "conditions": conditions}
        self.server._store(
            NODECLAIMS, {**body, "metadata": {**body["metadata"], "creationTimestamp": created}, "status": status}
        )
        entries = {**body["metadata"]["labels"], labels.INITIALIZED: "true", labels.HOSTNAME: name}
        self.cache.nodes.on_event(name, node(name, cpu="4", meta={"labels": entries}))

    def ready_nodes(self) -> int:
        return sum(life.ready is not None and life.leaves is None for life in self.lives.values())
