"""The objects that an event about a node is published on: its NodeClaim, and its Node if it has one."""

from __future__ import annotations

from typing import Any

from activities.kubernetes.event_references import claim_reference, reference
from activities.kubernetes.resources import NODES
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.records import NodeRecord


def subjects(claim: ClaimRecord, node: NodeRecord | None) -> list[dict[str, Any]]:
    """References to the NodeClaim and the Node, as a publisher of events takes them."""
    references = [claim_reference(claim.name, claim.uid)]
    return references if node is None else [*references, reference(NODES, node.name, node.uid)]
