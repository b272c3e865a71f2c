"""DaemonSets: which of them come to a node, and what they take of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.oracle.inputs import Inputs, Kind, Offer, Pod
from tests.oracle.places import NewNode, Standing
from tests.oracle.quantities import Amounts, plus

_ALWAYS = tuple(
    (f"node.kubernetes.io/{key}", "Exists", "", effect)
    for key, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)
"""What Kubernetes lets every pod of a DaemonSet tolerate."""


def tolerates(tolerations: Iterable[tuple[str, str, str, str]], taints: Iterable[Mapping[str, Any]]) -> bool:
    """Whether pods may go to a node with these taints; a taint that only prefers keeps nobody away."""
    hold = tuple(tolerations)
    return all(
        any(_covers(toleration, taint) for toleration in hold)
        for taint in taints
        if taint["effect"] != "PreferNoSchedule"
    )


def _covers(toleration: tuple[str, str, str, str], taint: Mapping[str, Any]) -> bool:
    key, operator, value, effect = toleration
    if effect not in ("", taint["effect"]) or key not in ("", taint["key"]):
        return False
    if operator == "Exists":
        return True
    return bool(key) and value == (taint.get("value") or "")


def coming_to(inputs: Inputs, place: NewNode) -> list[Pod]:
    """The DaemonSets that tolerate the node's taints."""
    return [daemon for daemon in inputs.daemons if tolerates((*daemon.tolerations, *_ALWAYS), place.taints)]


def runs_in(daemon: Pod, place: NewNode, way: tuple[Kind, Offer]) -> bool:
    """Whether a DaemonSet may have a pod there, if the node is bought in this way."""
    item = NewNode(place.name, place.taints, conditions=place.conditions, ways=[way], cloud_keys=place.cloud_keys)
    return any(daemon.wish.met(labels, open_counts=True) for labels in item.futures(daemon.wish.keys))


def taken_in(inputs: Inputs, place: NewNode) -> list[tuple[Kind, Amounts]]:
    """Each type of a place with what DaemonSets take there, once for each sum that occurs."""
    daemons = coming_to(inputs, place)
    if not daemons:
        return [(kind, {}) for kind in dict.fromkeys(kind for kind, _ in place.ways)]
    result: dict[tuple[str, tuple[int, ...]], tuple[Kind, Amounts]] = {}
    for way in place.ways:
        numbers = tuple(number for number, daemon in enumerate(daemons) if runs_in(daemon, place, way))
        if (way[0].name, numbers) not in result:
            result[way[0].name, numbers] = way[0], plus(daemons[number].requests for number in numbers)
    return list(result.values())


def still_to_come(inputs: Inputs, node: Standing) -> Amounts:
    """What the DaemonSets will take of a node on which they do not run yet."""
    namespaces = {(pod.namespace, pod.owner[1]) for pod in node.running if pod.owner[0] == "DaemonSet"}
    return plus(
        daemon.requests
        for daemon in inputs.daemons
        if (daemon.namespace, daemon.key.partition("/")[2]) not in namespaces
        and tolerates((*daemon.tolerations, *_ALWAYS), node.taints)
        and daemon.wish.met(node.labels)
    )
