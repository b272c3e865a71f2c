"""Clusters and records for tests of the report, in few words."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tenon.apis import labels
from tenon.ec2.types.instance_types import Prices
from tenon.fleet.document import Fleet
from tenon.fleet.rows import node_row
from tenon.fleet.summary import CommandSummary, FrozenPools, OpenRollout, PendingPod, PoolSchedule, open_commands
from tenon.fleet.waiting import with_waits
from tenon.kube.decode import decode_node, decode_nodeclaim
from tenon.kube.pod_decode import decode_pod
from tenon.kube.pod_disruption_budgets import PodDisruptionBudget, decode_pdb
from tenon.kube.records import ObjectRecord
from tenon.kube.timestamps import format_instant
from tenon.messages.explanation import Explanation
from tenon.record.entries import (
    BlockedBy,
    CommandCandidate,
    CommandEndEntry,
    CommandEntry,
    LaunchEntry,
    RecordedNode,
    RecordedPurchase,
    RefusalEntry,
    RemovalEntry,
)
from tenon.report.live import LiveCluster, LiveNode

NOW = datetime(2026, 3, 9, 12, tzinfo=UTC)
PRICES = Prices(
    on_demand={"m5.large": 0.096, "m5.xlarge": 0.192, "m5.2xlarge": 0.384, "r6i.xlarge": 0.252, "g5.xlarge": 1.006},
    spot={
        (kind, f"us-west-2{zone}"): price
        for kind, price in {"m5.large": 0.037, "c6i.2xlarge": 0.121}.items()
        for zone in "abc"
    },
)
ROOM = {
    "m5.large": ("1930m", "7100Mi"),
    "m5.xlarge": ("3920m", "14Gi"),
    "m5.2xlarge": ("7910m", "29Gi"),
    "r6i.xlarge": ("3920m", "29Gi"),
    "c6i.2xlarge": ("7910m", "14Gi"),
    "g5.xlarge": ("3920m", "14Gi"),
}
STAGES = ("Launched", "Registered", "Initialized")
CLASS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
WORKLOAD = {"apiVersion": "apps/v1", "controller": True}


class Cluster:
    """Objects of a cluster. `live` reads them as `tenon report` does."""

    def __init__(self, name: str = "prod") -> None:
        self.name = name
        self._pools: dict[str, ObjectRecord] = {}
        self._nodes: list[tuple[bytes, bytes | None]] = []
        self._pods: dict[str, list[bytes]] = {}
        self._numbers: Counter[str] = Counter()
        self.budgets: list[PodDisruptionBudget] = []
        self.pending_pods: list[PendingPod] = []
        self.events: dict[str, str] = {}
        self.notes: list[str] = []
        self.commands: list[CommandSummary] = []
        self.frozen: list[FrozenPools] = []
        self.rollouts: list[OpenRollout] = []
        self.scheduled: list[PoolSchedule] = []

    def pool(self, name: str, *, annotations: dict[str, str] | None = None, status: Any = None, **spec: Any) -> None:
        """Add a NodePool, by default one that consolidates."""
        disruption = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"}
        template = {"spec": {"requirements": [], "nodeClassRef": CLASS}}
        body = {
            "metadata": {"name": name, "annotations": annotations or {}},
            "spec": {"template": template, "disruption": {**disruption, **spec.pop("disruption", {})}, **spec},
            "status": status or {},
        }
        self._pools[name] = ObjectRecord.of(body)

    def node(
        self,
        pool: str,
        kind: str = "m5.xlarge",
        *,
        zone: str = "us-west-2a",
        capacity: str = "on-demand",
        age: timedelta = timedelta(hours=30),
        stages: int = 3,
        is_ready: bool = True,
        not_ready_for: timedelta = timedelta(hours=1),
        conditions: Sequence[dict[str, Any]] = (),
        devices: dict[str, str] | None = None,
        node_annotations: dict[str, str] | None = None,
        node_name: str = "",
        taints: Sequence[dict[str, str]] = (),
        meta: dict[str, Any] | None = None,
        **spec: Any,
    ) -> str:
        """Add a NodeClaim and its Node, and return the name of the Node."""
        if pool not in self._pools:
            self.pool(pool)
        self._numbers["node"] += 1
        number = self._numbers["node"]
        name, created = node_name or f"ip-10-0-{number // 256}-{number % 256}", format_instant(NOW - age)
        provider = f"aws:///{zone}/i-0{number:016x}"
        of_both = {
            labels.NODEPOOL: pool,
            labels.INSTANCE_TYPE: kind,
            labels.ZONE: zone,
            labels.CAPACITY_TYPE: capacity,
        }
        done = [{"type": stage, "status": "True", "lastTransitionTime": created} for stage in STAGES[:stages]]
        claim = {
            "metadata": {
                "name": f"{pool}-{number:05x}",
                "uid": f"uid-{number}",
                "labels": of_both,
                "creationTimestamp": created,
                **(meta or {}),
            },
            "spec": spec,
            "status": {"conditions": [*done, *conditions], "providerID": provider, "nodeName": name},
        }
        cpu, memory = ROOM[kind]
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": created}
        if not is_ready:
            ready |= {"status": "False", "lastTransitionTime": format_instant(NOW - not_ready_for)}
        node = {
            "metadata": {
                "name": name,
                "uid": f"node-uid-{number}",
                "labels": of_both,
                "annotations": node_annotations or {},
                "creationTimestamp": created,
            },
            "spec": {"providerID": provider, "taints": list(taints)},
            "status": {
                "allocatable": {"cpu": cpu, "memory": memory, "pods": "58", **(devices or {})},
                "conditions": [ready],
            },
        }
        self._nodes.append((_json(claim), _json(node) if stages > 1 else None))
        self._pods.setdefault(name, [])
        return name

    def pods(
        self,
        workload: str,
        count: int,
        node: str,
        cpu: str = "500m",
        memory: str = "1Gi",
        *,
        kind: str = "ReplicaSet",
        annotations: dict[str, str] | None = None,
        devices: dict[str, str] | None = None,
        name: str = "",
    ) -> None:
        """Add running pods of a workload, which is written as ``namespace/name``."""
        namespace, _, app = workload.partition("/")
        requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
        for _ in range(count):
            self._numbers[workload] += 1
            number = self._numbers[workload]
            body = {
                "metadata": {
                    "name": name or f"{app}-{number}",
                    "namespace": namespace,
                    "uid": f"{workload}-{number}",
                    "labels": {"app": app},
                    "annotations": annotations or {},
                    "ownerReferences": [{"kind": kind, "name": app, "uid": app, **WORKLOAD}],
                },
                "spec": {
                    "nodeName": node,
                    "containers": [{"name": "c", "resources": {"requests": {**requests, **(devices or {})}}}],
                },
                "status": {
                    "phase": "Running",
                    "startTime": format_instant(NOW - timedelta(hours=1)),
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            }
            self._pods[node].append(_json(body))

    def budget(self, workload: str, *, allowed: int = 0) -> None:
        """Add the PodDisruptionBudget of a workload."""
        namespace, _, app = workload.partition("/")
        body = {
            "metadata": {"name": app, "namespace": namespace, "generation": 1},
            "spec": {"selector": {"matchLabels": {"app": app}}, "minAvailable": 1},
            "status": {
                "disruptionsAllowed": allowed,
                "observedGeneration": 1,
                "currentHealthy": 1,
                "desiredHealthy": 1,
            },
        }
        self.budgets.append(decode_pdb(_json(body)).value)

    def waiting(self, key: str, why: str, claim: str = "") -> None:
        """Add a pod without a node."""
        self.pending_pods.append(PendingPod(key, NOW - timedelta(minutes=5), why, claim))

    def live(self, **fields: Any) -> LiveCluster:
        """Return the cluster as it is read."""
        nodes = []
        for claim_json, node_json in self._nodes:
            claim = decode_nodeclaim(claim_json)
            node = decode_node(node_json) if node_json is not None else None
            pods = [decode_pod(pod) for pod in self._pods.get(node.name, ())] if node is not None else []
            event = self.events.get(claim.name, "")
            row = node_row(claim, node, pods, self._pools.get(claim.pool), PRICES, NOW, event)
            nodes.append(LiveNode(row, claim, node, pods))
        commands = [*self.commands, *open_commands([live.row for live in nodes], {})]
        rows = with_waits([live.row for live in nodes], commands, self.frozen)
        nodes = [replace(live, row=row) for live, row in zip(nodes, rows, strict=True)]
        fleet = Fleet(rows, self.pending_pods, commands, NOW, self.notes, self.frozen, self.rollouts, self.scheduled)
        return LiveCluster(self.name, fleet, nodes, list(self._pools.values()), self.budgets, **fields)


def _json(body: Any) -> bytes:
    return json.dumps(body).encode()


def facts(number: int, **fields: Any) -> RecordedNode:
    """Return the facts of a node that is gone."""
    defaults: dict[str, Any] = {
        "pool": "web",
        "node": f"old-{number}",
        "instance": f"i-old{number}",
        "instance_type": "m5.large",
        "zone": "us-west-2a",
        "capacity_type": "on-demand",
        "price": 0.096,
    }
    return RecordedNode(claim=f"gone-{number:05x}", **(defaults | fields))


def launch(number: int, at: datetime, *, actor: str = "provisioner", why: str = "", **fields: Any) -> LaunchEntry:
    return LaunchEntry(
        id=f"launch/{number}",
        at=at,
        cluster="prod",
        actor=actor,
        facts=facts(number, **fields),
        launched_at=at,
        why=Explanation(pods=why),
    )


def removal(
    number: int,
    launched_at: datetime,
    at: datetime,
    reason: str = "Empty",
    *,
    actor: str = "disruption",
    detail: str = "",
    pods: int = 0,
    blocked_by: Sequence[BlockedBy] = (),
    **fields: Any,
) -> RemovalEntry:
    of_node = facts(number, **fields)
    hours = (at - launched_at) / timedelta(hours=1)
    return RemovalEntry(
        id=f"removal/{number}",
        at=at,
        cluster="prod",
        actor=actor,
        facts=of_node,
        reason=reason,
        detail=detail,
        launched_at=launched_at,
        terminated_at=at,
        pods=pods,
        cost=round(of_node.price * hours, 6),
        blocked_by=list(blocked_by),
    )


def waited(minutes: float, cause: str = "PodDisruptionBudget shop/cart", at: datetime = NOW) -> BlockedBy:
    """What kept a drain that ended a minute before this time."""
    since = at - timedelta(minutes=minutes + 1)
    return BlockedBy(cause=cause, pods=["shop/cart-1"], pod_count=2, since=since, seconds=60 * minutes)


def refusal(number: int, at: datetime, code: str, *offerings: str, actor: str = "provisioner") -> RefusalEntry:
    return RefusalEntry(
        id=f"refusal/{number}",
        at=at,
        cluster="prod",
        actor=actor,
        claim=f"gone-{number:05x}",
        pool="web",
        code=code,
        offerings=list(offerings),
        offering_count=len(offerings),
    )


def command(number: int, at: datetime, reason: str = "Underutilized", **fields: Any) -> CommandEntry:
    defaults: dict[str, Any] = {
        "candidates": [CommandCandidate(claim=f"gone-{number:05x}", pool="web", node=f"old-{number}", price=0.192)],
        "replacements": [RecordedPurchase(claim=f"new-{number}", pool="web", instance_type="m5.large", price=0.096)],
        "predicted": 0.096,
        "actor": "disruption",
    }
    return CommandEntry(
        id=f"command/prod/c{number}/r1",
        at=at,
        cluster="prod",
        command=f"c{number}",
        reason=reason,
        **(defaults | fields),
    )


def command_end(number: int, at: datetime, reason: str = "Underutilized", **fields: Any) -> CommandEndEntry:
    defaults: dict[str, Any] = {"accepted": [f"gone-{number:05x}"], "predicted": 0.096, "reached": 0.09}
    return CommandEndEntry(
        id=f"command-end/prod/c{number}/r1",
        at=at,
        cluster="prod",
        command=f"c{number}",
        reason=reason,
        **(defaults | fields),
    )
