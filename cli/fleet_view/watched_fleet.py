"""Keeps nodes, pods, freezes, rollouts and schedules by watches, so that a refresh costs only what has changed.

A list of 5,000 pods is 30 MB: to read it for each refresh would be too much for a laptop and for the API server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from activities.kubernetes import resources
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ForbiddenError, NotFoundError
from activities.kubernetes.resources import Resource
from cli.fleet_view.holds import frozen_pools, open_rollouts, scheduled_pools
from cli.fleet_view.watched_pod import WatchedPod, decode_watched_pod
from tenon.apis import labels
from tenon.apis.json_object import JsonObject
from tenon.apis.managed import manages_claim, manages_pool
from tenon.apis.nodeclaim import DISRUPTION_REASON
from tenon.ec2.types.instance_types import Prices
from tenon.fleet.document import Fleet
from tenon.fleet.rows import NodeRow, node_row
from tenon.fleet.summary import CommandSummary, PendingPod, commands_of_workflows, open_commands
from tenon.fleet.waiting import with_waits
from tenon.kube import object_json, pool_reason_json
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.decode import decode_node, decode_nodeclaim, decode_object
from tenon.kube.records import NodeRecord, ObjectRecord, PodRecord
from tenon.kube.timestamps import from_epoch, parse_instant
from tenon.report.live import LiveNode
from worker.cache.provider_ids import ProviderIds
from worker.cache.reflector import Reflector
from worker.cache.table import Table

EVENT_SECONDS = 15.0
"""Seconds between two reads of Tenon's events."""
EVENT_AGE = timedelta(minutes=20)
"""Tenon repeats an event that still holds after 15 minutes."""
ROW_SECONDS = 30
"""Seconds after which a row is made again although nothing changed: what protects a pod may be over."""
GATED = "it has scheduling gates"


@dataclass(slots=True)
class _CachedRow:
    """A row with what it was made of."""

    made_of: tuple[object, ...]
    row: NodeRow


@dataclass(slots=True)
class Messages:
    """What Tenon's newest events say, by the name or the key of the object."""

    blocked: Mapping[str, str] = field(default_factory=dict)
    """What keeps a node, by NodeClaim or Node."""
    pods: Mapping[str, str] = field(default_factory=dict)
    """Why no node was bought, by pod."""


class WatchedFleet:
    """The nodes, NodeClaims, NodePools and pods of a cluster, and what freezes, rolls out or schedules NodePools.

    `run` keeps them up to date.
    """

    def __init__(self, kube: Kube, clock: Callable[[], datetime]) -> None:
        self._kube = kube
        self._clock = clock
        self._ids = ProviderIds()
        self._claims: Table[ClaimRecord] = Table(self._claim_changed, keeps=lambda claim: manages_claim(claim.body))
        self._nodes: Table[NodeRecord] = Table(self._node_changed)
        self._pools: Table[ObjectRecord] = Table(self._changed, keeps=lambda pool: manages_pool(pool.body))
        self._pods: Table[WatchedPod] = Table(self._pod_changed)
        self._freezes: Table[ObjectRecord] = Table(self._changed)
        self._rollouts: Table[ObjectRecord] = Table(self._changed)
        self._schedules: Table[ObjectRecord] = Table(self._changed)
        self._pods_by_node: dict[str, dict[str, PodRecord]] = {}
        """The pods of a node are replaced and never changed, so that another dictionary means a change."""
        self._unbound: dict[str, WatchedPod] = {}
        self._kept_rows: dict[str, _CachedRow] = {}
        self._reflectors: list[Reflector[Any]] = []
        self._reads_events = False
        self.messages = Messages()
        self.prices = Prices()
        self.blocked: Collection[str] = ()
        """The NodeClaims whose workflow says that they are blocked."""
        self.commands: Sequence[CommandSummary] | None = None
        """The disruption commands whose workflows run; None if Temporal has not said it."""
        self.changes = asyncio.Event()
        self.events_were_read = asyncio.Event()
        """Tenon's events were read once, or cannot be read."""
        self.missing: list[str] = []
        """Resources that the API server does not serve."""
        self.forbidden: list[str] = []
        """Resources without which the view is useful too, and that this person may not read."""

    async def prepare(self) -> None:
        """Ask for one object of each resource, so that a missing right or server is an error and not a long wait.

        Raises:
            ApiError: the API server does not answer, or refuses.
        """
        watched_resources: list[tuple[Resource, Callable[[Any], Any], Table[Any]]] = [
            (resources.NODES, decode_node, self._nodes),
            (resources.PODS, decode_watched_pod, self._pods),
            (resources.NODECLAIMS, decode_nodeclaim, self._claims),
            (resources.NODEPOOLS, decode_object, self._pools),
        ]
        others: list[tuple[Resource, Table[ObjectRecord]]] = [
            (resources.DISRUPTIONFREEZES, self._freezes),
            (resources.NODEROLLOUTS, self._rollouts),
            (resources.NODESCHEDULES, self._schedules),
        ]
        watched_resources += [
            (resource, decode_object, table) for resource, table in others if await self._may_be_read(resource)
        ]
        are_served = await asyncio.gather(*(self._is_served(resource) for resource, _, _ in watched_resources))
        for (resource, decode, table), is_served in zip(watched_resources, are_served, strict=True):
            if is_served:
                # A list is compressed, and the first events of a watch are not: links may be slow.
                self._reflectors.append(Reflector(self._kube, resource, decode, table, watch_list=False))
            else:
                self.missing.append(resource.plural)
        self._reads_events = await self._may_read_events()

    async def _is_served(self, resource: Resource) -> bool:
        try:
            await self._kube.request("GET", resource.path(), query={"limit": "1"})
        except NotFoundError:
            return False
        return True

    async def _may_be_read(self, resource: Resource) -> bool:
        """Whether a resource is there that a cluster need not have, and that not everybody may read."""
        try:
            return await self._is_served(resource)
        except ForbiddenError:
            self.forbidden.append(resource.plural)
            return False

    async def _may_read_events(self) -> bool:
        """Whether events may be read, now or later. Some clusters keep them in a store of their own, which may fail."""
        try:
            return await self._may_be_read(resources.EVENTS)
        except ApiError:
            return True

    async def run(self) -> None:
        """Watch the cluster until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run(), name=f"watch {reflector.plural}")
            if self._reads_events:
                group.create_task(self._read_events(), name="read events")
            else:
                self.events_were_read.set()

    async def wait_synced(self) -> None:
        """Wait until everything has been read once."""
        for reflector in self._reflectors:
            await reflector.synced.wait()

    @property
    def region(self) -> str:
        """The region of the nodes; empty if no node says it."""
        regions = (node.labels.get("topology.kubernetes.io/region", "") for node in self._nodes)
        return next(filter(None, regions), "")

    def fleet(self, notes: Sequence[str] = ()) -> Fleet:
        """Return what is shown now. Rows of nodes that have not changed are those of the last time."""
        now = self._clock()
        rows, kept_rows = [], {}
        for key, claim, node in self._pairs():
            row = self._row(key, claim, node, now)
            kept_rows[key] = self._kept_rows[key]
            is_blocked = row.claim in self.blocked if row.claim else False
            rows.append(replace(row, is_blocked=True) if is_blocked else row)
        self._kept_rows = kept_rows
        claims = (claim for claim in self._claims if claim.disrupted_by)
        reasons = {claim.name: str(claim.condition(DISRUPTION_REASON).get("reason") or "") for claim in claims}
        commands = open_commands(rows, reasons)
        if self.commands is not None:
            names = {row.claim: row.name for row in rows if row.claim}
            commands = commands_of_workflows(self.commands, commands, names)
        frozen = frozen_pools(self._freezes, self._pools, now)
        rows = with_waits(rows, commands, frozen)
        scheduled = scheduled_pools(self._schedules, self._pools, now)
        rollouts = open_rollouts(self._rollouts)
        return Fleet(rows, self._pending_pods(), commands, now, notes, frozen, rollouts, scheduled)

    def pods_on(self, node_name: str) -> Sequence[PodRecord]:
        """Return the pods of a node."""
        return list(self._pods_by_node.get(node_name, {}).values())

    def live_nodes(self, fleet: Fleet) -> list[LiveNode]:
        """Return the nodes of what `fleet` has just returned, each with what its row was made of."""
        return [
            LiveNode(row, claim, node, self.pods_on(node.name) if node is not None else ())
            for row, (_, claim, node) in zip(fleet.rows, self._pairs(), strict=True)
        ]

    @property
    def pools(self) -> list[ObjectRecord]:
        """The NodePools, by name."""
        return sorted(self._pools, key=lambda pool: pool.name)

    def _pairs(self) -> list[tuple[str, ClaimRecord | None, NodeRecord | None]]:
        pairs: list[tuple[str, ClaimRecord | None, NodeRecord | None]] = []
        paired: set[str] = set()
        for claim in self._claims:
            node = self._nodes.get(self._ids.node(claim.provider_id) or claim.node_name)
            if node is not None:
                paired.add(node.name)
            pairs.append((f"nodeclaim/{claim.name}", claim, node))
        pairs += [(f"node/{node.name}", None, node) for node in self._nodes if node.name not in paired]
        return pairs

    def _row(self, key: str, claim: ClaimRecord | None, node: NodeRecord | None, now: datetime) -> NodeRow:
        pods = self._pods_by_node.get(node.name) if node is not None else None
        pool_name = claim.pool if claim is not None else ""
        pool = self._pools.get(pool_name) if pool_name else None
        event = self.messages.blocked.get(claim.name, "") if claim is not None else ""
        moment = int(now.timestamp()) // ROW_SECONDS
        made_of = (claim, node, pods, pool, self.prices, event, moment)
        kept_row = self._kept_rows.get(key)
        if kept_row is None or not _are_same(kept_row.made_of, made_of):
            row = node_row(claim, node, list((pods or {}).values()), pool, self.prices, now, event)
            self._kept_rows[key] = kept_row = _CachedRow(made_of, row)
        return kept_row.row

    def _pending_pods(self) -> list[PendingPod]:
        if not self._unbound:
            return []
        starting = (claim for claim in self._claims if not claim.initialized and not claim.deleting)
        bought = {pod.uid: claim.name for claim in starting for pod in claim.planned_pods}
        return [
            PendingPod(
                key=pod.key,
                since=from_epoch(pod.record.pod.created),
                why=self.messages.pods.get(pod.key, "") or (GATED if pod.record.gated else pod.why),
                claim=bought.get(pod.uid, ""),
            )
            for pod in sorted(self._unbound.values(), key=lambda pod: pod.key)
        ]

    async def _read_events(self) -> None:
        """Read what Tenon says about nodes that it cannot disrupt, and about pods that wait."""
        await self.wait_synced()  # before that, no pod seems to wait, and what Tenon says of it would not be read
        while True:
            try:
                events = await self._newest("DisruptionBlocked")
                blocked = {key: str(event.get("message") or "") for key, event in events.items()}
                events = await self._newest("FailedScheduling") if self._unbound else {}
                pods = {key: why_waiting(event) for key, event in events.items()}
            except ApiError:  # the view is useful without what has happened since the last answer
                pass
            else:
                if (blocked, pods) != (self.messages.blocked, self.messages.pods):
                    self.messages = Messages(blocked, pods)
                    self.changes.set()
            self.events_were_read.set()
            await asyncio.sleep(EVENT_SECONDS)

    async def _newest(self, reason: str) -> dict[str, JsonObject]:
        events = await self._kube.list(resources.EVENTS, field_selector=f"reason={reason},source=karpenter")
        oldest = self._clock() - EVENT_AGE
        newest: dict[str, tuple[datetime, JsonObject]] = {}
        for event in events:
            written_at = parse_instant(event.get("lastTimestamp"))
            if written_at is None or written_at < oldest:
                continue
            key = _subject(event)
            if key not in newest or newest[key][0] <= written_at:
                newest[key] = (written_at, event)
        return {key: event for key, (_, event) in newest.items()}

    def _changed(self, _key: str, _before: object, _after: object) -> None:
        self.changes.set()

    def _claim_changed(self, key: str, before: ClaimRecord | None, after: ClaimRecord | None) -> None:
        self._ids.claim_changed(key, before.provider_id if before else "", after.provider_id if after else "")
        self.changes.set()

    def _node_changed(self, key: str, before: NodeRecord | None, after: NodeRecord | None) -> None:
        self._ids.node_changed(key, before.provider_id if before else "", after.provider_id if after else "")
        self.changes.set()

    def _pod_changed(self, key: str, before: WatchedPod | None, after: WatchedPod | None) -> None:
        for node_name in {pod.record.node_name for pod in (before, after) if pod and pod.record.node_name}:
            pods = dict(self._pods_by_node.get(node_name, {}))
            if after is not None and after.record.node_name == node_name:
                pods[key] = after.record
            else:
                pods.pop(key, None)
            self._pods_by_node[node_name] = pods
        if after is not None and not (after.record.node_name or after.record.terminal or after.record.deleting):
            self._unbound[key] = after
        else:
            self._unbound.pop(key, None)
        self.changes.set()


def _are_same(before: tuple[object, ...], after: tuple[object, ...]) -> bool:
    """Whether these are the same objects. Tables keep an equal record, so that nothing need be compared in depth."""
    return all(
        old is new or (isinstance(new, str | int) and old == new) for old, new in zip(before, after, strict=True)
    )


def why_waiting(event: JsonObject) -> str:
    """Return why no node was bought for a pod, without times that may be over by now, as an event about it says."""
    reason = pool_reason_json.decode(object_json.annotations(event).get(labels.NO_PLACE))
    return str(reason.without_times) if reason is not None else str(event.get("message") or "")


def _subject(event: JsonObject) -> str:
    """The name of the object that an event is about, with its namespace if it is a Pod."""
    reference = event.get("involvedObject") or {}
    name = str(reference.get("name") or "")
    return f"{reference.get('namespace')}/{name}" if reference.get("kind") == "Pod" else name
