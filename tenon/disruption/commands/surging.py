"""Starts the new pod of a Deployment before the old one stops, where an eviction would leave it without one (WSH-16).

A rollout restart does that, as with `kubectl rollout restart`: while the old node keeps new pods away, the controller
starts a pod elsewhere, waits until it is ready, and then deletes the old one. Only pods with the annotation
`tenon.sh/surge` ask for it.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

from tenon.apis import labels
from tenon.kube import object_json
from tenon.kube.owners import DEPLOYMENT
from tenon.kube.pod import Pod
from tenon.kube.structs import Object
from tenon.kube.timestamps import format_instant

RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
_DEFAULT = "25%"


def deployment_key(pod: Pod) -> str:
    """Return the ``namespace/name`` of the Deployment of a pod that asks to surge."""
    return f"{pod.namespace}/{pod.workload.removeprefix(DEPLOYMENT)}"


def needs_surge(deployment: Object, *, blocked: bool) -> bool:
    """Return whether an eviction is not enough.

    ``blocked``: a PodDisruptionBudget allows no eviction of its pod.
    """
    return blocked or _replicas(deployment) == 1


def why_cannot_surge(deployment: Object) -> str:
    """Return why a restart would not start a new pod first, in a clause; empty if it would."""
    spec = deployment.get("spec") or {}
    strategy = spec.get("strategy") or {}
    rolling = strategy.get("rollingUpdate") or {}
    if spec.get("paused"):
        return "it is paused"
    if strategy.get("type") == "Recreate":
        return "its strategy is Recreate"
    if _resolved(rolling.get("maxSurge", _DEFAULT), _replicas(deployment), math.ceil) < 1:
        return "its maxSurge is 0"
    if _resolved(rolling.get("maxUnavailable", _DEFAULT), _replicas(deployment), math.floor) >= _replicas(deployment):
        return "its maxUnavailable lets all its pods go at once"
    return ""


def restart(deployment: Object, command: str, now: datetime) -> dict[str, Any]:
    """Return the patch that restarts it for a command; empty if the command did so already.

    It has the resource version, so that of two commands at the same instant only one restarts the Deployment.
    """
    if object_json.annotations(deployment).get(labels.SURGED_FOR) == command:
        return {}
    return {
        "metadata": {
            "annotations": {labels.SURGED_FOR: command},
            "resourceVersion": deployment["metadata"]["resourceVersion"],
        },
        "spec": {"template": {"metadata": {"annotations": {RESTARTED_AT: format_instant(now)}}}},
    }


def is_replacing_pods(deployment: Object) -> bool:
    """Return whether a rollout is in progress: it lacks new pods, has old ones, or its controller has yet to see it."""
    status = deployment.get("status") or {}
    updated = int(status.get("updatedReplicas") or 0)
    is_observed = int(status.get("observedGeneration") or 0) >= int(deployment["metadata"].get("generation") or 0)
    old_left = int(status.get("replicas") or 0) > updated
    return not is_observed or updated < _replicas(deployment) or old_left


def is_rolled_out(deployment: Object) -> bool:
    """Return whether all its pods are new and available, and no old one is left."""
    available = int((deployment.get("status") or {}).get("availableReplicas") or 0)
    return not is_replacing_pods(deployment) and available >= _replicas(deployment)


def _replicas(deployment: Object) -> int:
    replicas = (deployment.get("spec") or {}).get("replicas")
    return 1 if replicas is None else int(replicas)


def _resolved(value: int | str, replicas: int, rounded: Any) -> int:
    if isinstance(value, str) and value.endswith("%"):
        return int(rounded(replicas * int(value[:-1]) / 100))
    return int(value)
