"""Makes the entry of a node whose life has ended, from the result of its workflow."""

from __future__ import annotations

from datetime import datetime, timedelta

from tenon.apis.reasons import camel_case
from tenon.kube.timestamps import format_instant
from tenon.node.state import NodeClaimResult
from tenon.record.entries import BlockedBy, RecordedNode, RemovalEntry
from tenon.record.origin import Origin
from tenon.sentences import lasting, shortened

LAST_LINES = 20
"""How many lines of the timeline an entry keeps. The workflow has all of them until Temporal's retention ends."""


def removal_entry(origin: Origin, at: datetime, uid: str, result: NodeClaimResult) -> RemovalEntry:
    """Return the entry of a node whose workflow ended with this result. ``uid``: that of its NodeClaim."""
    return RemovalEntry(
        id=f"removal/{origin.cluster}/{result.claim}/{uid}",
        at=at,
        cluster=origin.cluster,
        workflow=origin.workflow,
        run=origin.run,
        actor=result.actor,
        facts=RecordedNode(
            claim=result.claim,
            pool=result.pool,
            node=result.node_name,
            instance=result.instance_id,
            instance_type=result.instance_type,
            zone=result.zone,
            capacity_type=result.capacity_type,
            price=result.price_per_hour,
        ),
        reason=camel_case(result.reason),
        detail=shortened(result.detail, 2000),
        created_at=result.created_at,
        launched_at=result.launched_at,
        asked_at=result.asked_at,
        terminated_at=result.terminated_at,
        stopped=result.stopped,
        pods=result.pods_evicted,
        workloads=list(result.evicted_workloads),
        cost=result.cost,
        blocked_by=blocked_by(result),
        timeline=[f"{format_instant(line.at)} {line.text}" for line in result.timeline[-LAST_LINES:]],
    )


def blocked_by(result: NodeClaimResult) -> list[BlockedBy]:
    """Return what kept the drain, the longest first."""
    return [
        BlockedBy(
            cause=block.cause,
            pods=list(block.pods),
            pod_count=block.pod_count,
            since=block.since,
            seconds=block.seconds,
        )
        for block in sorted(result.drain_blocks, key=lambda block: -block.seconds)
    ]


def pod_names(blocked: BlockedBy) -> str:
    """Return the first pods that were kept, and how many others; empty if volumes kept the node."""
    more = blocked.pod_count - len(blocked.pods)
    return ", ".join(blocked.pods) + (f" and {more} more" if more > 0 else "")


def blocked_text(blocked: BlockedBy) -> str:
    """Say what kept a drain: 'PodDisruptionBudget shop/web kept 5 pods (shop/a, shop/b, shop/c and 2 more) for 3h'."""
    names = pod_names(blocked)
    pods = "it" if not names else f"pod {names}" if blocked.pod_count == 1 else f"{blocked.pod_count} pods ({names})"
    return f"{blocked.cause} kept {pods} for {lasting(timedelta(seconds=blocked.seconds))}"
