"""A cluster in which pods come and go, nodes expire, and the real disruption decisions are carried out.

It is a `World` with the decisions about disruption, whose commands it carries out as their workflows do, with a
kube-scheduler that prefers the emptiest node, and with instance types. Each purchase and each removal is remembered.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

from activities.disruption.disrupting import Disruptor
from activities.disruption.move_events import MoveEvents
from activities.disruption.move_validation import MoveValidator
from activities.disruption.moves import MoveFinder, methods_within
from activities.disruption.pass_pace import PassPace
from activities.disruption.situation_reader import SituationReader
from activities.disruption.situation_source import SituationSource
from activities.disruption.supply import SupplyReader
from activities.kubernetes.resources import NODECLAIMS
from activities.provisioning.launch_refusals import LaunchRefusals
from tenon.apis import labels
from tenon.apis.reasons import Reason
from tenon.disruption.commands.open_commands import commands_without
from tenon.evolve import evolve
from tenon.kube.decode import decode_node
from tenon.kube.timestamps import format_instant
from tenon.messages.disruption import AwaitDisruptionInput, DisruptionCommand, OpenCommand, PassCursor
from tenon.messages.provisioning import PlanInput
from tenon.node.leave_text import recorded
from tenon.provisioning.planning_policy import PlanPolicy
from tenon.resources import format_resources
from tenon.scheduling.model import InstanceType, Offering
from tests.activities.provisioning.fake_view import FakeTypes
from tests.tenon.schedule.schedules import POOL
from tests.tenon.scheduling.builders import CATALOG
from tests.worker.cache.objects import metadata, running, waiting
from tests.worker.schedule_world import BOOT, DRAIN, Life, World
from worker.cache.changes import Topic
from worker.controllers.provisioning.purchase_turns import PurchaseTurns
from worker.controllers.provisioning.static_nodepool import StaticNodePoolController

TYPES = {kind.name: kind for kind in CATALOG}
VALIDATED_AFTER = timedelta(seconds=15)
POSTPONED_FOR = timedelta(minutes=5)


@dataclass
class WorkloadPod:
    """A pod of a ReplicaSet, which gets another name each time it is made again."""

    cpu: str
    millis: int
    node: str = ""
    times: int = 0


@dataclass
class Event:
    """Something that users do."""

    at: datetime
    happens: Callable[[LivingCluster], None]


@dataclass
class Removal:
    """A node that a disruption command, a controller or its age removed."""

    claim: str
    at: datetime
    reason: str
    is_off: bool
    """Whether its NodePool is off, or is about to be by the time that a node takes to boot."""


@dataclass
class CarriedOut:
    """A command that moves pods."""

    command: DisruptionCommand
    validate_at: datetime
    replacements: list[str] | None = None
    """None before they are bought."""


@dataclass
class History:
    """What happened."""

    bought: dict[str, datetime] = field(default_factory=dict)
    removals: list[Removal] = field(default_factory=list)
    changes: list[tuple[datetime, str]] = field(default_factory=list)
    """When pods or what schedules ask for changed."""


class LivingCluster(World):
    """The world with disruption."""

    def __init__(self, now: datetime) -> None:
        super().__init__(now)
        self.history = History()
        self.pods: dict[str, WorkloadPod] = {}
        self._began = (now, asyncio.get_running_loop().time())
        self._types: dict[str, InstanceType] = {}
        self._ledger: dict[str, OpenCommand] = {}
        self._open: dict[str, CarriedOut] = {}
        self._cursor = PassCursor()
        room, recorder = self.buffers._room, cast("Any", self.recorder)

        def clock() -> datetime:
            return self.cache.instant

        refusals, events = self.batcher.refusals, MoveEvents(recorder, self.view.node_uid)
        supply = SupplyReader(self.view, FakeTypes(), refusals)
        reader = SituationReader(self.view, clock, self.batcher.nominated_nodes, room)
        situations = SituationSource(self.view, supply, self.batcher, situations=reader, now=clock)
        pace = PassPace(self.view, self.batcher, refusals)
        self.moves = MoveFinder(self.view, situations, events, methods_within, pace, clock)
        validator = MoveValidator(self.view, situations, events, refusals, clock)
        self.disruptor = Disruptor(self.view, clock, reader, self.moves, validator)
        self.static = StaticNodePoolController(
            cast("Any", self.server),
            self.cache,
            self.view,
            FakeTypes(),
            PlanPolicy(),
            PurchaseTurns(self.view),
            LaunchRefusals(),
        )
        self._demands = self.view.schedules.now().pools

    async def pass_time(self, seconds: float, events: list[Event]) -> None:
        """Let time pass, what is due then happen, and everything have its turn. ``events`` are sorted by time."""
        await asyncio.sleep(seconds)
        began, loop_began = self._began
        self.cache.instant = began + timedelta(seconds=asyncio.get_running_loop().time() - loop_began)
        while events and events[0].at <= self.cache.instant:
            events.pop(0).happens(self)
        await self.look()

    async def look(self) -> None:
        self.server.clock.instant = self.cache.instant
        demands = self.view.schedules.now().pools
        if demands != self._demands:
            self._demands = demands
            self._changed("what schedules ask for")
        self._machines()
        self._bind()
        await self.schedules.reconcile(())
        await self.static.reconcile(())
        await self.buffers.reconcile([(Topic.POOL, POOL)])
        if self.batcher.undecided():
            self.batch += 1
            await self.planner.plan(PlanInput(cluster="c", batch=self.batch))
        await self._disrupt()
        self._note()

    @property
    def is_busy(self) -> bool:
        """Whether something is under way, so that time must pass in small steps."""
        bodies = [self.server.objects["nodeclaims", "", name] for name in self.server.names(NODECLAIMS)]
        lives = (self.lives.get(body["metadata"]["name"]) for body in bodies)
        is_starting = any(life is None or life.ready is None for life in lives)
        is_leaving = any(body["metadata"].get("deletionTimestamp") for body in bodies)
        return bool(self._open or is_starting or is_leaving or self._ledger)

    def add_pod(self, name: str, millis: int) -> None:
        self.pods[name] = WorkloadPod(f"{millis}m", millis)
        self._put(name)
        self._changed(f"pod {name} came")

    def remove_pod(self, name: str) -> None:
        pod = self.pods.pop(name)
        self.cache.pods.on_event(f"ns/{name}-{pod.times}", None)
        self._changed(f"pod {name} went")

    def _changed(self, event: str) -> None:
        self.history.changes.append((self.cache.instant, event))

    def _put(self, name: str) -> None:
        pod, now = self.pods[name], format_instant(self.cache.instant)
        owner = {"kind": "ReplicaSet", "uid": f"rs-{name}", "controller": True, "name": name, "apiVersion": "apps/v1"}
        meta = {"ownerReferences": [owner], "creationTimestamp": now}
        pod_name = f"{name}-{pod.times}"
        record = (
            running(pod_name, pod.node, since=now, cpu=pod.cpu, meta=meta)
            if pod.node
            else waiting(pod_name, cpu=pod.cpu, meta=meta)
        )
        self.cache.pods.on_event(record.key, record)

    def _bind(self) -> None:
        """Put each pod on the node that has most room left, as kube-scheduler does, wherever it was planned."""
        free = {
            name: self._types[name].allocatable["cpu"]
            - sum(pod.millis for pod in self.pods.values() if pod.node == name)
            for name in self._ready_nodes()
        }
        planned = {pod.uid: place for place, pods in self.batcher.reserved().items() for pod in pods}
        for name, pod in sorted(self.pods.items()):
            if pod.node or not free:
                continue
            best = max(free, key=lambda node: (free[node], node))
            if free[best] >= pod.millis:
                if planned.get(f"uid-{name}-{pod.times}", best) != best:
                    self._changed(f"kube-scheduler put {name} on {best}")
                pod.node, free[best] = best, free[best] - pod.millis
                self._put(name)

    def _bind_planned(self, claim: str) -> None:
        """Put the pods on the node that it was bought for, as its workflow does."""
        record = self.cache.claims.get(claim)
        assert record is not None
        replica_sets = {planned.name.rpartition("-")[0] for planned in record.planned_pods}
        for name, pod in sorted(self.pods.items()):
            if not pod.node and name in replica_sets:
                pod.node = claim
                self._put(name)

    def _ready_nodes(self) -> list[str]:
        """The nodes that take pods."""
        result = []
        for name in self.server.names(NODECLAIMS):
            body = self.server.objects["nodeclaims", "", name]["metadata"]
            life = self.lives.get(name)
            is_closed = body.get("deletionTimestamp") or labels.DISRUPTED_BY in body["annotations"]
            if life is not None and life.ready is not None and not is_closed:
                result.append(name)
        return result

    def _machines(self) -> None:
        now = self.cache.instant
        for name in self.server.names(NODECLAIMS):
            life, body = self.lives.setdefault(name, Life(now)), self.server.objects["nodeclaims", "", name]
            expiry = self.cache.claims.get(name)
            assert expiry is not None
            seconds = expiry.expire_after_seconds
            if body["metadata"].get("deletionTimestamp"):
                life.leaves = life.leaves or now
                self._evict(name)
            elif seconds is not None and now >= life.began + timedelta(seconds=seconds):
                self._delete(name, Reason.EXPIRED)
                self._changed(f"{name} expired")
            if life.leaves is not None and now >= life.leaves + DRAIN:
                life.ended = now
                del self.server.objects["nodeclaims", "", name]
                self.cache.claims.on_event(name, None)
                self.cache.nodes.on_event(name, None)
            elif name not in self._types:
                self._launch(name, body)
            elif life.ready is None and life.leaves is None and now >= life.began + BOOT:
                life.ready = now
                self._joins(name, self.server.objects["nodeclaims", "", name])

    def _evict(self, node: str) -> None:
        for name, pod in self.pods.items():
            if pod.node == node:
                self.cache.pods.on_event(f"ns/{name}-{pod.times}", None)
                pod.node, pod.times = "", pod.times + 1
                self._put(name)

    def _launch(self, name: str, body: dict[str, Any]) -> None:
        kind, offering = _cheapest(body)
        self._types[name] = kind
        of_type = {
            key: next(iter(kind.requirements[key].values)) for key in kind.requirements if kind.requirements[key].values
        }
        entries = {
            **of_type,
            labels.INSTANCE_TYPE: kind.name,
            labels.ZONE: offering.zone,
            labels.CAPACITY_TYPE: offering.capacity_type,
        }
        status = {
            "providerID": f"aws:///{offering.zone}/i-{name}",
            "capacity": format_resources(kind.capacity),
            "allocatable": format_resources(kind.allocatable),
            "conditions": [self._condition("Launched")],
        }
        self._write(name, body, {**body["metadata"]["labels"], **entries}, status)

    def _joins(self, name: str, body: dict[str, Any]) -> None:
        conditions = [*body["status"]["conditions"], self._condition("Registered"), self._condition("Initialized")]
        self._write(
            name, body, body["metadata"]["labels"], {**body["status"], "nodeName": name, "conditions": conditions}
        )
        entries = {**body["metadata"]["labels"], labels.INITIALIZED: "true", labels.HOSTNAME: name}
        quantities = {field: body["status"][field] for field in ("capacity", "allocatable")}
        node = {
            "metadata": metadata(name, labels=entries, creationTimestamp=format_instant(self.cache.instant)),
            "spec": {"providerID": body["status"]["providerID"]},
            "status": {**quantities, "conditions": [{"type": "Ready", "status": "True"}]},
        }
        self.cache.nodes.on_event(name, decode_node(json.dumps(node).encode()))
        self._bind_planned(name)

    def _condition(self, kind: str) -> dict[str, str]:
        return {"type": kind, "status": "True", "lastTransitionTime": format_instant(self.cache.instant)}

    def _write(self, name: str, body: dict[str, Any], entries: dict[str, str], status: dict[str, Any]) -> None:
        self.server._store(NODECLAIMS, {**body, "metadata": {**body["metadata"], "labels": entries}, "status": status})

    def _note(self) -> None:
        """Remember what was bought, and what controllers deleted."""
        removed = {removal.claim for removal in self.history.removals}
        for name in self.server.names(NODECLAIMS):
            self.history.bought.setdefault(name, self.cache.instant)
            body = self.server.objects["nodeclaims", "", name]["metadata"]
            if body.get("deletionTimestamp") and name not in removed:
                reason = recorded(body["annotations"])[-1].reason
                self._remember_removal(name, reason)

    def _delete(self, claim: str, reason: str) -> None:
        body = self.server.objects["nodeclaims", "", claim]
        if not body["metadata"].get("deletionTimestamp"):
            deleted = {**body["metadata"], "deletionTimestamp": format_instant(self.cache.instant)}
            self.server._store(NODECLAIMS, {**body, "metadata": deleted})
            self._remember_removal(claim, reason)

    def _remember_removal(self, claim: str, reason: str) -> None:
        pool = self.server.objects["nodeclaims", "", claim]["metadata"]["labels"][labels.NODEPOOL]
        demand = self.view.schedules.now().pools.get(pool)
        is_off = demand is not None and not demand.launches
        self.history.removals.append(Removal(claim, self.cache.instant, reason, is_off))

    async def _disrupt(self) -> None:
        await self._go_on()
        for _ in range(3):
            decision = await self.disruptor.await_candidates(
                AwaitDisruptionInput(cluster="c", wait_seconds=1.0, ledger=self._ledger, cursor=self._cursor)
            )
            self._cursor = decision.cursor or self._cursor
            self._ledger = commands_without(self._ledger, decision.finished_claims)
            for command in decision.commands:
                await self._start(command)
            if not (decision.commands or decision.finished_claims):
                break

    async def _start(self, command: DisruptionCommand) -> None:
        now = self.cache.instant
        for position, candidate in enumerate(command.candidates):
            self._ledger[candidate.claim] = OpenCommand(
                command=command.id,
                reason=command.reason,
                pool=candidate.pool,
                until=now + POSTPONED_FOR,
                since=now,
                due=now if command.only_if_empty else None,
                hosts=[] if position else sorted(command.arrivals),
            )
            if command.only_if_empty and not any(pod.node == candidate.claim for pod in self.pods.values()):
                self._delete(candidate.claim, command.reason)
        if not command.only_if_empty:
            self._open[command.id] = CarriedOut(command, now + VALIDATED_AFTER)

    async def _go_on(self) -> None:
        for ident, carried in list(self._open.items()):
            claims = [candidate.claim for candidate in carried.command.candidates]
            if carried.replacements is None:
                if self.cache.instant < carried.validate_at:
                    continue
                step = await self.disruptor.validate(carried.command)
                if step.failure:
                    await self._undo(ident, claims)
                    continue
                carried.command = step.instead or carried.command
                for claim in claims:  # from now on, the node takes no new pods
                    await self.server.patch(
                        NODECLAIMS, claim, {"metadata": {"annotations": {labels.DISRUPTED_BY: ident}}}
                    )
                carried.replacements = [replacement.name for replacement in carried.command.replacements]
                for replacement in carried.command.replacements:
                    await self.server.create(NODECLAIMS, replacement.body)
                continue
            present = set(self.server.names(NODECLAIMS))
            if not present.issuperset(carried.replacements):
                await self._undo(ident, claims)
                continue
            if all((life := self.lives.get(name)) and life.ready for name in carried.replacements):
                for name in carried.replacements:
                    unmark = {"metadata": {"annotations": {labels.REPLACEMENT_FOR: None}}}
                    await self.server.patch(NODECLAIMS, name, unmark)
                for claim in present.intersection(claims):
                    self._delete(claim, carried.command.reason)
                del self._open[ident]

    async def _undo(self, ident: str, claims: list[str]) -> None:
        del self._open[ident]
        now = self.cache.instant
        for claim in claims:
            unmark = {"metadata": {"annotations": {labels.DISRUPTED_BY: None}}}
            await self.server.patch(NODECLAIMS, claim, unmark)
            if claim in self._ledger:
                self._ledger[claim] = evolve(self._ledger[claim], postponed=True, due=now + POSTPONED_FOR)


def _cheapest(claim: dict[str, Any]) -> tuple[InstanceType, Offering]:
    """What EC2 launches for a NodeClaim."""
    allowed: dict[str, set[str]] = {
        term["key"]: set(term.get("values") or ()) for term in claim["spec"]["requirements"] if term["operator"] == "In"
    }
    choices = [
        (offering.price, name, offering.zone, offering.capacity_type, offering)
        for name in sorted(allowed[labels.INSTANCE_TYPE])
        for offering in TYPES[name].offerings
        if offering.zone in allowed.get(labels.ZONE, {offering.zone})
        and offering.capacity_type in allowed.get(labels.CAPACITY_TYPE, {offering.capacity_type})
    ]
    *_, offering = min(choices, key=lambda choice: choice[:4])
    return TYPES[min(choices, key=lambda choice: choice[:4])[1]], offering
