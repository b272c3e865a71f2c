"""Gives each Node of a NodePool a NodeClaim if the files have none, so that its disruption can be simulated.

A file with Nodes is often written by hand, or exported without the NodeClaims.
"""

from __future__ import annotations

from tenon.apis import labels
from tenon.apis.json_object import JsonObject
from tenon.apis.nodeclaim import READY_DEPENDENTS
from tenon.simulation.objects import Objects, SourcedObject

SINCE_EVER = "1970-01-01T00:00:00Z"


def add_node_claims(objects: Objects) -> None:
    """Add an initialized NodeClaim for each Node with the label of a NodePool of the input that has none.

    A Node that says nothing about its conditions counts as ready.
    """
    claims = objects.by_kind.setdefault("NodeClaim", {})
    pools = {pool.name: pool.body for pool in objects.of("NodePool")}
    served = {_status(claim.body).get(key) for claim in claims.values() for key in ("providerID", "nodeName")}
    for node in list(objects.of("Node")):
        metadata = node.body["metadata"]
        pool = pools.get((metadata.get("labels") or {}).get(labels.NODEPOOL, ""))
        provider_id = (node.body.get("spec") or {}).get("providerID") or f"simulated:///{node.name}"
        if pool is None or metadata.get("deletionTimestamp") or {node.name, provider_id} & served:
            continue
        if node.key not in claims:
            body = _with_conditions(node.body, provider_id)
            objects.by_kind["Node"][node.key] = SourcedObject(node.kind, body, node.source)
            claims[node.key] = SourcedObject("NodeClaim", _claim(body, pool), node.source)


def _status(body: JsonObject) -> JsonObject:
    return body.get("status") or {}


def _with_conditions(node: JsonObject, provider_id: str) -> JsonObject:
    metadata, status = node["metadata"], _status(node)
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": metadata.get("creationTimestamp") or SINCE_EVER}
    return {
        **node,
        "metadata": {**metadata, "labels": {**metadata["labels"], labels.INITIALIZED: "true"}},
        "spec": {**(node.get("spec") or {}), "providerID": provider_id},
        "status": {**status, "conditions": status.get("conditions") or [ready]},
    }


def _claim(node: JsonObject, pool: JsonObject) -> JsonObject:
    metadata, status, template = node["metadata"], _status(node), pool["spec"]["template"]["spec"]
    since = metadata.get("creationTimestamp") or SINCE_EVER
    conditions = [
        {"type": kind, "status": "True", "reason": kind, "lastTransitionTime": since} for kind in READY_DEPENDENTS
    ]
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": metadata["name"], "labels": metadata["labels"], "creationTimestamp": since},
        "spec": {
            "nodeClassRef": template["nodeClassRef"],
            # What the Node's labels leave out counts as the pool wants it: a hand-written Node has not drifted.
            "requirements": template.get("requirements") or [],
            **{key: template[key] for key in ("expireAfter", "terminationGracePeriod") if key in template},
        },
        "status": {
            "providerID": node["spec"]["providerID"],
            "nodeName": metadata["name"],
            "capacity": status.get("capacity") or {},
            "allocatable": status.get("allocatable") or {},
            "conditions": conditions,
        },
    }
