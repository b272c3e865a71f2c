"""Who owns an object: the owner that would replace it, and the workload that people know it by."""

from __future__ import annotations

from collections.abc import Sequence

from tenon.kube.structs import Metadata, Owner

DAEMONSET = "DaemonSet"
STATEFULSET = "StatefulSet"
NODE = "Node"
_DECIDING = (DAEMONSET, STATEFULSET, NODE)


def controller(references: Sequence[Owner] | None) -> Owner | None:
    """The owner with ``controller: true``, of which an object has at most one."""
    return next((owner for owner in references or () if owner.controller), None)


def deciding_owner(references: Sequence[Owner] | None) -> Owner | None:
    """The owner that says what kind of pod this is: its controller, because only a controller replaces the pod.

    A pod without a controller still belongs to a DaemonSet, StatefulSet or Node that it names as an owner.
    """
    return controller(references) or next((owner for owner in references or () if owner.kind in _DECIDING), None)


def workload(metadata: Metadata) -> str:
    """The controller of a pod as ``Kind/name``; a ReplicaSet that a Deployment made counts as that Deployment."""
    owner = controller(metadata.owner_references)
    if owner is None:
        return ""
    template = (metadata.labels or {}).get("pod-template-hash")
    if owner.kind == "ReplicaSet" and template and owner.name.endswith(f"-{template}"):
        return f"Deployment/{owner.name.removesuffix(f'-{template}')}"
    return f"{owner.kind}/{owner.name}"
