"""The step "initialize node": check that the Node is ready for the pods that its claim was created for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from activities.kubernetes.changes import Compute, change
from activities.kubernetes.client import Kube
from activities.kubernetes.nodeclaims import (
    Clock,
    ConditionUpdate,
    consistency_condition,
    read_claim,
    update_conditions,
)
from activities.kubernetes.resources import NODES
from activities.node.nodes import find_node
from activities.node.startup_cordon import remove_startup_cordon
from tenon.apis import labels
from tenon.apis.nodeclaim import INITIALIZED
from tenon.kube import object_json
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.structs import Object
from tenon.messages.node_steps import InitializeResult, NodeInput
from tenon.node import startup_cordon
from tenon.node.consistency import shortfalls
from tenon.node.initialization import initialization
from tenon.resources import parse_resources

Learn = Callable[[ClaimRecord, Mapping[str, Any]], Awaitable[None]]
"""Learns from an initialized node of a claim."""


@dataclass(frozen=True, slots=True)
class InitializedNode:
    """The claim and its Node as the initialization wrote them, so that the next step need not read them again."""

    claim: ClaimRecord
    node: Object


async def initialized_node(
    kube: Kube, node_input: NodeInput, now: Clock, learn: Learn | None = None
) -> InitializedNode | InitializeResult:
    """Label the Node as initialized and set the claim's condition, and return both; or report what is still missing."""
    claim = await read_claim(kube, node_input.claim)
    if claim is None:
        return InitializeResult(reason="NodeClaimGone", message=f"NodeClaim {node_input.claim.name} is gone")
    match = await find_node(kube, node_input, claim)
    if match.node is None:
        return await _awaited(kube, node_input, claim, match.reason, match.message, now)
    verdict = initialization(claim.body, match.node)
    if not verdict.initialized:
        if startup_cordon.is_cordoned_too_long(claim, now()):
            await remove_startup_cordon(kube, match.node)
        return await _awaited(kube, node_input, claim, verdict.reason, verdict.message, now)
    name = match.node["metadata"]["name"]
    labelled = await change(kube, NODES, name, _label(claim), uid=object_json.uid(match.node), read_object=match.node)
    if labelled is None:
        return await _awaited(kube, node_input, claim, "NodeNotFound", f"Node {name} went away", now)
    if not (verdict := initialization(claim.body, labelled)).initialized:
        return await _awaited(kube, node_input, claim, verdict.reason, verdict.message, now)
    updates = [ConditionUpdate(INITIALIZED, "True"), consistency_condition(_shortfalls(claim, match.node))]
    written = await update_conditions(kube, node_input.claim, updates, now, read_object=claim.body)
    if written is None:
        return InitializeResult(reason="NodeClaimGone", message=f"NodeClaim {node_input.claim.name} is gone")
    if learn is not None:
        await learn(claim, match.node)
    return InitializedNode(written, labelled)


async def _awaited(
    kube: Kube, node_input: NodeInput, claim: ClaimRecord, reason: str, message: str, now: Clock
) -> InitializeResult:
    awaited = ConditionUpdate(INITIALIZED, "Unknown", reason, message)
    await update_conditions(kube, node_input.claim, [awaited], now, read_object=claim.body)
    return InitializeResult(reason=reason, message=message)


def _shortfalls(claim: ClaimRecord, node: Mapping[str, Any]) -> list[str]:
    requested = parse_resources((claim.spec.get("resources") or {}).get("requests"))
    expected = parse_resources(claim.status.get("capacity"))
    return shortfalls(requested, expected, parse_resources((node.get("status") or {}).get("capacity")))


def _label(claim: ClaimRecord) -> Compute:
    """The change that labels a Node, if it is still initialized: a taint may come back before the label is written."""

    def computed(node: Mapping[str, Any]) -> dict[str, Any]:
        present = object_json.labels(node)
        if present.get(labels.INITIALIZED) == "true" or not initialization(claim.body, node).initialized:
            return {}
        return {"metadata": {"labels": {labels.INITIALIZED: "true"}}}

    return computed
