"""What is known of one node: what its workflow says, running or ended, its events, and the entries that name it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tenon.kube.claim_record import ClaimRecord
from tenon.kube.pool_reasons import NoPlace
from tenon.messages.node import Removal
from tenon.node.leave_text import removal_text
from tenon.node.state import NodeClaimResult, NodeState
from tenon.node.timeline import why_blocked
from tenon.record.entries import (
    BlockedBy,
    Entry,
)
from tenon.record.removals import blocked_by
from tenon.record.why.mentions import NodeNames


@dataclass(frozen=True, slots=True)
class NodeLife:
    """What the node's workflow says, running or ended."""

    stage: str
    explanation: Sequence[str] = ()
    instance: str = ""
    offering: str = ""
    """Such as ``m5.large, us-west-2a, spot``."""
    price: float = 0.0
    launched_at: datetime | None = None
    pool: str = ""
    node: str = ""
    removal: str = ""
    actor: str = ""
    asked_at: datetime | None = None
    blocked: str = ""
    timeline: Sequence[tuple[datetime, str]] = ()
    cost: float = 0.0
    blocked_by: Sequence[BlockedBy] = ()
    """What kept its drain, if it has ended."""
    workloads: Sequence[str] = ()
    """What the pods are of that were evicted (`tenon.kube.pod_workload`)."""
    workflow: str = ""


def life_of_state(state: NodeState, workflow: str = "") -> NodeLife:
    """What a running workflow says."""
    instance = state.instance
    return NodeLife(
        stage=state.stage.value,
        explanation=state.explanation,
        instance=instance.id if instance else "",
        offering=f"{instance.instance_type}, {instance.zone}, {instance.capacity_type}" if instance else "",
        price=instance.price if instance else 0.0,
        launched_at=instance.launched_at if instance else None,
        pool=state.pool,
        node=state.node_name,
        removal="; ".join(map(removal_text, (state.leave, *state.leave.later))) if state.leave else "",
        actor=state.leave.actor if state.leave else "",
        asked_at=state.leave.asked_at if state.leave else None,
        blocked=why_blocked(state),
        timeline=[(entry.at, entry.text) for entry in state.timeline],
        workloads=state.evicted_workloads,
        workflow=workflow,
    )


def life_of_result(result: NodeClaimResult, workflow: str = "") -> NodeLife:
    """What a workflow says that has ended."""
    return NodeLife(
        stage="ended",
        explanation=result.explanation,
        instance=result.instance_id,
        offering=f"{result.instance_type}, {result.zone}, {result.capacity_type}" if result.instance_id else "",
        price=result.price_per_hour,
        launched_at=result.launched_at,
        pool=result.pool,
        node=result.node_name,
        removal=removal_text(Removal(reason=result.reason, detail=result.detail, actor=result.actor)),
        actor=result.actor,
        asked_at=result.asked_at,
        timeline=[(entry.at, entry.text) for entry in result.timeline],
        cost=result.cost,
        blocked_by=blocked_by(result),
        workloads=result.evicted_workloads,
        workflow=workflow,
    )


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """An event of Kubernetes about the node or its NodeClaim."""

    at: datetime
    reason: str
    message: str
    no_place: NoPlace | None = None
    """What the message says, if it says why no node is bought for a pod."""


@dataclass(frozen=True, slots=True)
class NodeSources:
    """All that is known of one node."""

    identity: NodeNames
    entries: Sequence[Entry] = ()
    """Those that name the node, and the purchases while it left, the oldest first."""
    life: NodeLife | None = None
    claim: ClaimRecord | None = None
    events: Sequence[NodeEvent] = ()
    namesakes: Sequence[str] = field(default_factory=list)
    """Other NodeClaims that had the name that was asked for."""
