"""The properties of a pod as JSON that draining and binding need: its owner, phase, grace period and tolerations.

Activities read at most a hundred pods of one node and write them back, so pods stay JSON here. The rules are the same
as for the cache's records.
"""

from __future__ import annotations

from datetime import datetime

from tenon.apis import labels
from tenon.kube import object_json, pod_kinds
from tenon.kube.owners import deciding_owner, owners
from tenon.kube.protection import pod_protected
from tenon.kube.structs import Object
from tenon.kube.taints import Taint, Toleration
from tenon.kube.timestamps import parse_instant

CRITICAL_CLASSES = frozenset({"system-cluster-critical", "system-node-critical"})
DEFAULT_GRACE_SECONDS = 30
DISRUPTED = Taint(key=labels.DISRUPTED_TAINT[0], effect=labels.DISRUPTED_TAINT[1])


def is_terminal(pod: Object) -> bool:
    """Whether the pod has terminated and disappears without help."""
    return pod_kinds.is_terminal((pod.get("status") or {}).get("phase") or "")


def is_daemon(pod: Object) -> bool:
    """Whether a DaemonSet owns the pod and would replace it only on the same node."""
    return pod_kinds.is_daemon(_owner_kind(pod))


def is_mirror(pod: Object) -> bool:
    """Whether the pod mirrors a static pod, which no API call can remove from its node."""
    return pod_kinds.is_mirror(object_json.annotations(pod), _owner_kind(pod))


def is_critical(pod: Object) -> bool:
    """Whether the pod's priority class marks it as critical for the cluster or its node."""
    return (pod.get("spec") or {}).get("priorityClassName") in CRITICAL_CLASSES


def is_reschedulable(pod: Object) -> bool:
    """Whether the pod makes its node non-empty: it is running and would need another node."""
    deleting = object_json.is_deleting(pod)
    return pod_kinds.is_reschedulable(
        _owner_kind(pod), mirror=is_mirror(pod), terminal=is_terminal(pod), deleting=deleting
    )


def protection(pod: Object, now: datetime) -> str:
    """Return which annotation of the pod forbids its eviction now, as a sentence; empty if none does."""
    started = parse_instant((pod.get("status") or {}).get("startTime"))
    return pod_protected(object_json.annotations(pod), started, now)


def grace_seconds(pod: Object) -> int:
    """Return the pod's own termination grace period in seconds."""
    seconds = (pod.get("spec") or {}).get("terminationGracePeriodSeconds")
    return DEFAULT_GRACE_SECONDS if seconds is None else int(seconds)


def granted_seconds(pod: Object) -> int:
    """Return the grace period, in seconds, of a deletion in progress."""
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
    """Whether any toleration of the pod tolerates the taint."""
    return any(toleration.tolerates(taint) for toleration in tolerations(pod))


def _owner_kind(pod: Object) -> str:
    owner = deciding_owner(owners(pod))
    return owner.kind if owner is not None else ""
