"""A launched instance, the claim that it was launched for, and its node at rest."""

from __future__ import annotations

from datetime import UTC, datetime

from tenon.messages.base import ClaimRef
from tenon.messages.launch import ClaimView, Instance
from tenon.node.state import NodeState, Stage

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
REF = ClaimRef(cluster="c", name="default-x1", uid="u1")
INSTANCE = Instance(
    id="i-1",
    provider_id="aws:///us-west-2a/i-1",
    instance_type="m5.large",
    zone="us-west-2a",
    capacity_type="spot",
    image_id="ami-1",
    price=0.04,
)
VIEW = ClaimView(exists=True, created_at=NOW, pool="default", planned_pods=1, expire_after_seconds=3600)


def at_live(**update: object) -> NodeState:
    """A node at rest."""
    return NodeState(
        claim=REF, stage=Stage.LIVE, instance=INSTANCE, node_name="n1", registered=True, initialized=True
    ).model_copy(update=update)
