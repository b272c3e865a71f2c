"""A small story: a batch buys a node, EC2 refuses once, a person force-drains the node, and another comes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tenon.kube.pool_reasons import Clause, NoPlace, Obstacle, ObstacleKind
from tenon.messages.explanation import Explanation
from tenon.record.entries import (
    CommandCandidate,
    CommandEndEntry,
    CommandEntry,
    Entry,
    LaunchEntry,
    PlanEntry,
    RecordedNode,
    RecordedPurchase,
    RefusalEntry,
    RemovalEntry,
)

START = datetime(2026, 11, 26, 12, tzinfo=UTC)
CLAIM, NODE, INSTANCE = "default-x1", "ip-10-0-0-1.ec2.internal", "i-0abc"


CHOICE = "m5.large is the cheapest of 12 types; c5.large lacks memory"


def after(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def facts(claim: str = CLAIM, node: str = NODE, instance: str = INSTANCE) -> RecordedNode:
    return RecordedNode(
        claim=claim,
        pool="default",
        node=node,
        instance=instance,
        instance_type="m5.large",
        zone="us-west-2a",
        capacity_type="spot",
        price=0.04,
    )


def purchase(claim: str = CLAIM, *pods: str) -> RecordedPurchase:
    return RecordedPurchase(
        claim=claim,
        pool="default",
        instance_type="m5.large",
        price=0.04,
        pods=list(pods),
        pod_count=len(pods),
        why=Explanation(choice=CHOICE),
    )


PLAN = PlanEntry(
    id="plan/1",
    at=after(0),
    cluster="c",
    actor="provisioner",
    batch=1,
    pods=3,
    purchases=[purchase(CLAIM, "shop/web-1", "shop/web-2")],
    unschedulable={
        "shop/huge": NoPlace(
            (
                Clause("default", (Obstacle(ObstacleKind.REQUESTS, "needs 5000 CPU; the largest type has 192"),)),
                Clause("gpu", (Obstacle(ObstacleKind.TAINTS, "the pod does not tolerate nvidia.com/gpu"),)),
            )
        )
    },
    unschedulable_count=1,
    purchase_count=1,
    price=0.04,
)
REFUSAL = RefusalEntry(
    id="refusal/1",
    at=after(0.2),
    cluster="c",
    claim=CLAIM,
    pool="default",
    code="InsufficientCapacity",
    message="EC2 has no capacity",
    offerings=["spot c5.large us-west-2a"],
    offering_count=1,
)
LAUNCH = LaunchEntry(
    id="launch/1",
    at=after(0.5),
    cluster="c",
    workflow="nodeclaim/c/default-x1",
    actor="provisioner",
    facts=facts(node=""),
    launched_at=after(0.5),
    offered=12,
    attempt=2,
    why=Explanation(pods="2 pods: shop/web-1, shop/web-2"),
)
NEXT_PLAN = PlanEntry(
    id="plan/2",
    at=after(61),
    cluster="c",
    actor="provisioner",
    batch=2,
    pods=2,
    purchases=[purchase("default-x2", "shop/web-3")],
    on_existing={"other": ["shop/web-4"]},
    purchase_count=1,
    placed_count=1,
)
LATER_PLAN = PlanEntry(
    id="plan/3", at=after(600), cluster="c", batch=3, pods=1, purchases=[purchase("default-x3", "a/b")]
)
REMOVAL = RemovalEntry(
    id="removal/1",
    at=after(63),
    cluster="c",
    actor="alice with tenon node",
    facts=facts(),
    reason="ForceDrain",
    detail="the disk is slow (OPS-7)",
    launched_at=after(0.5),
    asked_at=after(60),
    terminated_at=after(62),
    pods=2,
    cost=0.04,
    timeline=[
        "2026-11-26T12:00:30Z launched i-0abc (m5.large, us-west-2a, spot)",
        "2026-11-26T13:00:00Z force drain requested",
    ],
)
COMMAND = CommandEntry(
    id="command/1",
    at=after(60),
    cluster="c",
    actor="disruption",
    command="cmd-1",
    reason="Underutilized",
    decision="replace",
    candidates=[CommandCandidate(claim=CLAIM, pool="default", node=NODE, price=0.04)],
    replacements=[purchase("default-x4", "shop/web-1")],
    pods=1,
    predicted=0.02,
    why="one t3.small holds its pod",
)
COMMAND_END = CommandEndEntry(
    id="command-end/1",
    at=after(64),
    cluster="c",
    command="cmd-1",
    reason="Underutilized",
    accepted=[CLAIM],
    replacements=["default-x4"],
    predicted=0.02,
    reached=0.015,
)
STORY: list[Entry] = [PLAN, REFUSAL, LAUNCH, NEXT_PLAN, LATER_PLAN, REMOVAL]
