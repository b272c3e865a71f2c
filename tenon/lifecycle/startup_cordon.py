"""A starting node is closed to all but the pods that it was bought for: cordoned until those are bound.

kube-scheduler spreads whatever waits over whatever just became ready. Pods of another size, or of a later plan, take
the room of those that a node was bought for, which then wait for a node of their own: the load ends on more and dearer
nodes, and later. Pods of DaemonSets tolerate a cordon, so that a closed node gets ready as any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from tenon.apis import labels
from tenon.apis.nodeclaim import REGISTERED
from tenon.kube.conditions import true_since

Object = Mapping[str, Any]

UNSCHEDULABLE_TAINT = ("node.kubernetes.io/unschedulable", "NoSchedule")
"""What the node lifecycle controller makes of a cordon."""
LONGEST = timedelta(seconds=45)
"""After so long a registered node that does not get ready is opened: kube-scheduler may know more than Tenon."""


def closed(node: Object) -> bool:
    """Whether Tenon keeps other pods away from the Node, and not a person who cordoned it; nor did one uncordon it."""
    return _marked(node) and cordoned(node)


def cordoned(node: Object) -> bool:
    """Whether anyone keeps new pods away from the Node."""
    return bool((node.get("spec") or {}).get("unschedulable"))


def opened(node: Object) -> dict[str, Any]:
    """The merge patch that opens a closed Node; empty when Tenon has not closed it."""
    if not _marked(node):
        return {}
    patch: dict[str, Any] = {"metadata": {"annotations": {labels.CLOSED: None}}}
    if cordoned(node):
        taints = list(node["spec"].get("taints") or ())
        left = [taint for taint in taints if (taint["key"], taint["effect"]) != UNSCHEDULABLE_TAINT]
        patch["spec"] = {"unschedulable": None} if left == taints else {"unschedulable": None, "taints": left}
    return patch


def _marked(node: Object) -> bool:
    return (node["metadata"].get("annotations") or {}).get(labels.CLOSED) == "true"


def closed_long(claim: Object, now: datetime) -> bool:
    """Whether the claim's Node was registered so long ago that it is to be opened."""
    since = true_since(claim, REGISTERED)
    return since is not None and now - since > LONGEST
