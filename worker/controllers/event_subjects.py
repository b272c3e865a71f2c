"""The objects that an event about a node is published on: its NodeClaim, and its Node if it has one."""

from __future__ import annotations

from typing import Any

from activities.kubernetes.resources import NODECLAIMS, NODES, Resource
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.records import NodeRecord


def subjects(claim: ClaimRecord, node: NodeRecord | None) -> list[dict[str, Any]]:
    """References to the NodeClaim and the Node, as a publisher of events takes them."""
    found = [_reference(NODECLAIMS, claim)]
    return found if node is None else [*found, _reference(NODES, node)]


def _reference(resource: Resource, record: ClaimRecord | NodeRecord) -> dict[str, Any]:
    metadata = {"name": record.name, "uid": record.uid}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
