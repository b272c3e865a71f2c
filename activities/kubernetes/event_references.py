"""References to the objects that events are about.

Records of the cache and models do not have the form of an object. `EventRecorder.publish` takes such a reference, or a
whole object.
"""

from __future__ import annotations

from activities.kubernetes.resources import NODECLAIMS, NODEPOOLS, NODES, PODS, Resource
from tenon.apis.json_object import JsonObject
from tenon.apis.nodepool import NodePool
from tenon.kube.pod import Pod


def reference(resource: Resource, name: str, uid: str = "", namespace: str = "") -> JsonObject:
    """Return a reference to an object, which may be gone already. Leave out what is empty."""
    metadata = {"name": name, "uid": uid, "namespace": namespace}
    fields = {field: value for field, value in metadata.items() if value}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": fields}


def claim_reference(name: str, uid: str) -> JsonObject:
    """Return a reference to a NodeClaim."""
    return reference(NODECLAIMS, name, uid)


def node_references(claim: str, claim_uid: str, node: str, node_uid: str) -> list[JsonObject]:
    """Return references to a NodeClaim and its Node, for an event that is about both.

    A Node without a UID is left out: it is gone, and `kubectl describe` finds the events of a Node by its UID.
    """
    references = [claim_reference(claim, claim_uid)]
    return [*references, reference(NODES, node, node_uid)] if node_uid else references


def pool_reference(pool: NodePool) -> JsonObject:
    """Return a reference to a NodePool."""
    return reference(NODEPOOLS, pool.metadata.name, pool.metadata.uid or "")


def pod_reference(pod: Pod) -> JsonObject:
    """Return a reference to a pod."""
    return reference(PODS, pod.name, pod.uid, pod.namespace)
