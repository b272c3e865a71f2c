"""A cluster with a bit of everything, and its last week, for pictures and for tests of the whole page."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from tenon.apis import labels
from tenon.fleet.summary import CommandSummary, FrozenPools, OpenRollout, PoolSchedule
from tenon.kube.timestamps import format_instant
from tenon.record.entries import CostEntry, CostRow, Entry
from tests.tenon.report.clusters import NOW, Cluster, command, command_end, launch, refusal, removal, waited

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
WEEK = timedelta(days=7)
DRIFTED = {
    "type": "Drifted",
    "status": "True",
    "reason": "AMIDrift",
    "message": "AMIDrift: ami-0a1 is not among the images of EC2NodeClass default",
    "lastTransitionTime": format_instant(NOW - 5 * HOUR),
}
MAY_MOVE = {"type": "Consolidatable", "status": "True"}


def busy_cluster() -> Cluster:
    """Return four NodePools with 30 nodes of all kinds."""
    chance = random.Random(7)
    cluster = Cluster("prod-eu")
    cluster.notes.append("Prices are those of EC2 for us-west-2")
    cluster.pool("web", limits={"cpu": "120"}, status={"resources": {"cpu": "104"}})
    cluster.pool("batch", disruption={"consolidationPolicy": "WhenEmpty", "consolidateAfter": "10m"})
    cluster.pool("gpu", disruption={"consolidateAfter": "Never"})
    cluster.pool("system")
    for number in range(12):
        node = cluster.node(
            "web",
            chance.choice(["m5.xlarge", "m5.2xlarge"]),
            zone=f"us-west-2{'abc'[number % 3]}",
            age=chance.randint(20, 160) * HOUR,
            conditions=[DRIFTED] if number in (2, 7) else [MAY_MOVE],
            expireAfter="168h",
        )
        for workload, cpu, memory in (
            ("shop/api", "700m", "1Gi"),
            ("shop/web", "250m", "512Mi"),
            ("search/index", "1", "3Gi"),
        ):
            cluster.pods(workload, chance.randint(0, 2), node, cpu, memory)
        cluster.pods("kube-system/vpc-cni", 1, node, "50m", "128Mi", kind="DaemonSet")
        cluster.pods("monitoring/agent", 1, node, "100m", "256Mi", kind="DaemonSet")
    for number in range(8):
        node = cluster.node(
            "batch",
            "c6i.2xlarge",
            zone=f"us-west-2{'abc'[number % 3]}",
            capacity="spot",
            age=chance.randint(1, 20) * HOUR,
            expireAfter="72h",
        )
        cluster.pods("etl/job", chance.randint(1, 6), node, "1", "1500Mi", kind="Job")
        cluster.pods("kube-system/vpc-cni", 1, node, "50m", "128Mi", kind="DaemonSet")
    for number in range(3):
        node = cluster.node("gpu", "g5.xlarge", devices={"nvidia.com/gpu": "1"}, age=(60 + number) * HOUR)
        cluster.pods("ml/notebook", 1, node, "200m", "1Gi", kind="StatefulSet")
    for number in range(3):
        node = cluster.node("web", "m5.2xlarge", age=(100 + number) * HOUR, expireAfter="168h", conditions=[MAY_MOVE])
        cluster.pods("shop/sessions", 4, node, "300m", "2Gi", annotations={labels.DO_NOT_DISRUPT: "true"})
    for _ in range(2):
        node = cluster.node("system", "r6i.xlarge", age=40 * DAY, conditions=[MAY_MOVE])
        cluster.pods("data/postgres", 1, node, "1500m", "16Gi", kind="StatefulSet")
        cluster.pods("kube-system/coredns", 1, node, "", "")
    cluster.budget("data/postgres")
    leaving = cluster.node(
        "web",
        "m5.xlarge",
        age=70 * HOUR,
        taints=[{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}],
        meta={
            "deletionTimestamp": format_instant(NOW - 40 * timedelta(minutes=1)),
            "finalizers": [labels.TERMINATION_FINALIZER],
            "annotations": {labels.DELETED_BECAUSE: '[{"reason": "drain", "detail": "kernel bug", "actor": "ann"}]'},
        },
    )
    cluster.pods("shop/cart", 1, leaving)
    cluster.budget("shop/cart")
    cluster.node("batch", "c6i.2xlarge", capacity="spot", age=timedelta(minutes=2), stages=1)
    for number in range(5):
        cluster.waiting(f"ml/train-{number}", "NodePool gpu: its limit of nvidia.com/gpu is reached (3 of 3)")
    cluster.waiting("etl/job-91", "0/29 nodes are available", claim="batch-0001d")
    waits = "waits for approval until 2026-03-10 08:00:00 UTC: tenon approve drifted-1, or tenon refuse drifted-1"
    moves = CommandSummary("drifted-1", "Drifted", ["ip-10-0-0-3"], [], 0.05, waits, NOW, awaits_approval=True)
    cluster.commands.append(moves)
    cause = "by DisruptionFreeze pause-batch of ann (INC-1) until it is deleted"
    cluster.frozen.append(FrozenPools(["batch"], "pause-batch", "ann", "INC-1", None, cause))
    cluster.scheduled.append(PoolSchedule("ci", "off", ["hours/nights"], datetime(2026, 11, 30, 8, 55, tzinfo=UTC)))
    cluster.rollouts.append(OpenRollout("careful", "web", "Paused", "2/3", "v2", "ann paused it"))
    return cluster


def busy_week() -> Sequence[Entry]:
    """Return what happened in its last week."""
    chance = random.Random(11)
    entries: list[Entry] = []
    for number in range(260):
        at = NOW - WEEK + chance.random() * WEEK
        hour = at.hour
        if chance.random() > (0.9 if 7 <= hour <= 19 else 0.25):
            continue
        spot = chance.random() < 0.5
        kind: dict[str, Any] = (
            {"instance_type": "c6i.2xlarge", "capacity_type": "spot", "price": 0.121, "pool": "batch"} if spot else {}
        )
        life = chance.choice([1, 2, 4, 6, 9, 16]) * HOUR * (0.5 + chance.random())
        why = "cheapest available types that fit" if spot else "the cheapest of 41 types that hold 6 pods"
        entries.append(launch(number, at, why=why, **kind))
        if at + life < NOW:
            reason = chance.choice(["Empty", "Empty", "Underutilized", "Underutilized", "Drifted", "Expired"])
            reason = "SpotInterrupted" if spot and chance.random() < 0.2 else reason
            actor = {"Expired": "the node's workflow", "SpotInterrupted": "EC2"}.get(
                reason, f"command {reason.lower()}-{number}"
            )
            entries.append(removal(number, at, at + life, reason, actor=actor, pods=chance.randint(0, 9), **kind))
        else:
            entries.append(
                removal(
                    number,
                    at,
                    NOW - timedelta(minutes=1),
                    "Drain",
                    actor="ann",
                    detail="kernel bug",
                    blocked_by=[waited(number)],
                    **kind,
                )
            )
    for number in range(18):
        at = NOW - WEEK + chance.random() * WEEK
        entries.append(command(number, at))
        reached = round(0.096 * chance.choice([1, 1, 0.8, 0.4]), 4)
        entries.append(command_end(number, at + timedelta(minutes=6), reached=reached))
    entries.append(command(90, NOW - 3 * HOUR))
    entries.append(
        command_end(90, NOW - 2.9 * HOUR, failure="no capacity for its replacement", accepted=[], reached=None)
    )
    for number in range(30):
        zone = chance.choice("abc")
        code = chance.choice(["InsufficientInstanceCapacity", "InsufficientInstanceCapacity", "SpotMaxPriceTooLow"])
        at = NOW - chance.random() * 3 * DAY
        entries.append(
            refusal(number, at, code, f"spot c6i.2xlarge us-west-2{zone}", f"spot c6i.xlarge us-west-2{zone}")
        )
    for hours in range(0, 7 * 24, 6):
        start = NOW - WEEK + hours * HOUR
        entries.append(_sample(start, start + 6 * HOUR))
    return sorted(entries, key=lambda entry: entry.at)


def _sample(since: datetime, until: datetime) -> CostEntry:
    """Return who requested what in some hours."""
    rows = [
        CostRow(pool="web", namespace="shop", of="pods", cost=2.1),
        CostRow(pool="web", namespace="search", of="pods", cost=1.2),
        CostRow(pool="web", of="daemons", cost=0.3),
        CostRow(pool="web", of="idle", cost=2.4),
        CostRow(pool="batch", namespace="etl", of="pods", cost=0.8),
        CostRow(pool="batch", of="idle", cost=0.3),
        CostRow(pool="gpu", namespace="ml", of="pods", cost=0.4),
        CostRow(pool="gpu", of="idle", cost=2.6),
        CostRow(pool="system", namespace="data", of="pods", cost=0.5),
    ]
    bound = 0.4 + 5.7 * ((until - NOW + WEEK) / WEEK) ** 2
    return CostEntry(
        id=f"cost/{since:%d%H}",
        at=until,
        cluster="prod-eu",
        since=since,
        samples=360,
        rows=rows,
        lower_bound=round(bound, 6),
    )
