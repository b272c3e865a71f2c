"""The owners of an object: the controller that would replace it, and the workload that users know it by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tenon.apis import labels
from tenon.kube.structs import Metadata, Object, Owner, read

DAEMONSET = "DaemonSet"
STATEFULSET = "StatefulSet"
NODE = "Node"
DEPLOYMENT = "Deployment/"
"""How the workloads begin that are Deployments."""
_DECIDING = (DAEMONSET, STATEFULSET, NODE)


def owners(obj: Object) -> list[Owner]:
    """The owners of an object as JSON."""
    return [read(reference, Owner) for reference in obj["metadata"].get("ownerReferences") or ()]


def controller(references: Sequence[Owner] | None) -> Owner | None:
    """Return the owner with ``controller: true``. An object has at most one."""
    return next((owner for owner in references or () if owner.controller), None)


def deciding_owner(references: Sequence[Owner] | None) -> Owner | None:
    """Return the owner that determines the kind of pod: its controller, because only a controller replaces the pod.

    If a pod has no controller, it still belongs to a DaemonSet, StatefulSet or Node among its owners.
    """
    return controller(references) or next((owner for owner in references or () if owner.kind in _DECIDING), None)


def workload(metadata: Metadata) -> str:
    """Return the pod's controller as ``Kind/name``. A ReplicaSet of a Deployment is reported as the Deployment."""
    owner = controller(metadata.owner_references)
    if owner is None:
        return ""
    template = (metadata.labels or {}).get("pod-template-hash")
    if owner.kind == "ReplicaSet" and template and owner.name.endswith(f"-{template}"):
        return f"{DEPLOYMENT}{owner.name.removesuffix(f'-{template}')}"
    return f"{owner.kind}/{owner.name}"


def surges(annotations: Mapping[str, str], controller: str) -> bool:
    """Return whether a pod asks to start its successor before it stops. ``controller``: its controller, `workload`."""
    return annotations.get(labels.SURGE) == "true" and controller.startswith(DEPLOYMENT)
