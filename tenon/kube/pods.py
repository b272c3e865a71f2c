"""What draining and binding ask of a raw Pod: who owns it, whether it has ended, what it tolerates.

Pods stay plain JSON here: a node has a hundred of them at most, and only a handful of fields matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from tenon.apis import labels
from tenon.kube.taints import Taint, Toleration
from tenon.kube.timestamps import parse_instant

Object = Mapping[str, Any]

CRITICAL_CLASSES = frozenset({"system-cluster-critical", "system-node-critical"})
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
DEFAULT_GRACE_SECONDS = 30
DISRUPTED = Taint(key=labels.DISRUPTED_TAINT[0], effect=labels.DISRUPTED_TAINT[1])


def key(obj: Object) -> str:
    """``namespace/name``."""
    metadata = obj["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


def uid(obj: Object) -> str:
    """The UID of an object; empty when it has none."""
    return str(obj["metadata"].get("uid") or "")


def deletion_instant(obj: Object) -> datetime | None:
    """When a deletion takes effect: for a Pod the end of its grace, else the instant of the request."""
    return parse_instant(obj["metadata"].get("deletionTimestamp"))


def is_terminal(pod: Object) -> bool:
    """Whether the pod has ended for good and will vanish without help."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def is_daemon(pod: Object) -> bool:
    """Whether a DaemonSet owns the pod."""
    return _owned_by(pod, "DaemonSet")


def is_mirror(pod: Object) -> bool:
    """Whether the pod only mirrors a static pod, which no API call can take off its node."""
    return MIRROR_ANNOTATION in (pod["metadata"].get("annotations") or {}) or _owned_by(pod, "Node")


def is_critical(pod: Object) -> bool:
    """Whether the pod's priority class says that the cluster or its node depends on it."""
    return (pod.get("spec") or {}).get("priorityClassName") in CRITICAL_CLASSES


def is_reschedulable(pod: Object) -> bool:
    """Whether the pod makes its node non-empty: it runs, and would need another node.

    A terminating pod counts only in a StatefulSet, which starts the same pod again elsewhere.
    """
    if is_terminal(pod) or is_daemon(pod) or is_mirror(pod):
        return False
    return not pod["metadata"].get("deletionTimestamp") or _owned_by(pod, "StatefulSet")


def grace_seconds(pod: Object) -> int:
    """The pod's own termination grace period in seconds."""
    seconds = (pod.get("spec") or {}).get("terminationGracePeriodSeconds")
    return DEFAULT_GRACE_SECONDS if seconds is None else int(seconds)


def granted_seconds(pod: Object) -> int:
    """The grace, in seconds, of a deletion that is under way."""
    seconds = pod["metadata"].get("deletionGracePeriodSeconds")
    return grace_seconds(pod) if seconds is None else int(seconds)


def tolerations(pod: Object) -> tuple[Toleration, ...]:
    """The pod's tolerations."""
    return tuple(
        Toleration(
            key=raw.get("key") or "",
            operator=raw.get("operator") or "Equal",
            value=raw.get("value") or "",
            effect=raw.get("effect") or "",
        )
        for raw in (pod.get("spec") or {}).get("tolerations") or ()
    )


def tolerates(pod: Object, taint: Taint) -> bool:
    """Whether any toleration of the pod covers the taint."""
    return any(toleration.tolerates(taint) for toleration in tolerations(pod))


def taints(raw: Iterable[Object] | None) -> tuple[Taint, ...]:
    """Taints of a Node or NodeClaim."""
    return tuple(Taint(key=taint["key"], effect=taint["effect"], value=taint.get("value") or "") for taint in raw or ())


def _owned_by(pod: Object, kind: str) -> bool:
    return any(owner.get("kind") == kind for owner in pod["metadata"].get("ownerReferences") or ())
