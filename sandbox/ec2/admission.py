"""Decides whether a kubelet would run a pod that was bound to its node.

A kubelet repeats the scheduler's checks against what it really runs, and fails a pod that does not fit. This module
implements those checks as pure functions. It repeats rules of `tenon.kube` on purpose: the sandbox verifies what Tenon
did, and with shared code for requests, selectors or host ports it would share Tenon's mistakes. It shares only the
parsing of quantities (`tenon.resources`), which tests check against Kubernetes' own texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tenon.kube.structs import Object
from tenon.resources import Resources, add, maximum, parse_resources


@dataclass(frozen=True)
class Rejection:
    """Why a kubelet fails a pod: the reason and message of the pod's status."""

    reason: str
    message: str


def requests(pod: Object) -> Resources:
    """A pod's effective requests: its containers and sidecars, or a start-up peak if that is higher, plus its
    overhead.
    """
    spec = pod.get("spec") or {}
    total: Resources = {}
    for container in spec.get("containers") or []:
        total = add(total, _requests(container))
    sidecars: Resources = {}
    peak: Resources = {}
    for container in spec.get("initContainers") or []:
        own = _requests(container)
        if container.get("restartPolicy") == "Always":
            sidecars = add(sidecars, own)
            peak = maximum(peak, sidecars)
        else:
            peak = maximum(peak, add(sidecars, own))
    effective = maximum(add(total, sidecars), peak)
    for name, amount in _requests(spec).items():
        if name in ("cpu", "memory") or name.startswith("hugepages-"):
            effective[name] = amount
    return add(effective, parse_resources(spec.get("overhead")), {"pods": 1})


def _requests(holder: Object) -> Resources:
    return parse_resources((holder.get("resources") or {}).get("requests"))


def tolerates(tolerations: Iterable[Object], taint: Object) -> bool:
    """Whether any toleration covers a taint."""
    for toleration in tolerations:
        if toleration.get("effect") and toleration["effect"] != taint["effect"]:
            continue
        if toleration.get("key") and toleration["key"] != taint["key"]:
            continue
        if toleration.get("operator") == "Exists":
            return True
        if toleration.get("key") and (toleration.get("value") or "") == (taint.get("value") or ""):
            return True
    return False


def untolerated(pod: Object, node: Object, effects: Iterable[str]) -> list[Object]:
    """The node's taints of these effects that the pod does not tolerate."""
    tolerations = (pod.get("spec") or {}).get("tolerations") or []
    taints = (node.get("spec") or {}).get("taints") or []
    expectation = set(effects)
    return [taint for taint in taints if taint["effect"] in expectation and not tolerates(tolerations, taint)]


def selects(pod: Object, node: Object) -> bool:
    """Whether the pod's nodeSelector and required node affinity accept the node."""
    spec = pod.get("spec") or {}
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if affinity is None:
        return True
    fields = {"metadata.name": node["metadata"]["name"]}
    for term in affinity.get("nodeSelectorTerms") or []:
        by_label, by_field = term.get("matchExpressions") or [], term.get("matchFields") or []
        if not by_label and not by_field:
            continue  # an empty term accepts nothing
        if all(_matches(item, labels) for item in by_label) and all(_matches(item, fields) for item in by_field):
            return True
    return False


def _matches(expression: Object, labels: Mapping[str, str]) -> bool:
    key, values = expression["key"], expression.get("values") or []
    value = labels.get(key)
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            try:
                have, bound = int(value or ""), int(values[0])
            except (ValueError, IndexError):
                return False
            return have > bound if operator == "Gt" else have < bound
    return False


HostPort = tuple[str, str, int]
"""(address, protocol, port)."""
ANY_ADDRESS = "0.0.0.0"


def host_ports(pod: Object) -> set[HostPort]:
    """The ports that the pod occupies on its node: those of its containers and sidecars, but not of other init
    containers.
    """
    spec = pod.get("spec") or {}
    sidecars = [
        init_container
        for init_container in spec.get("initContainers") or []
        if init_container.get("restartPolicy") == "Always"
    ]
    return {
        (port.get("hostIP") or ANY_ADDRESS, port.get("protocol") or "TCP", port["hostPort"])
        for container in [*(spec.get("containers") or []), *sidecars]
        for port in container.get("ports") or []
        if port.get("hostPort")
    }


def ports_clash(expectation: Iterable[HostPort], host_ports: Iterable[HostPort]) -> bool:
    """Whether a wanted port is taken: on the same address, or if one of the two occupies all addresses."""
    occupied = list(host_ports)
    return any(
        (protocol, port) == (other_protocol, other_port) and (address == other or ANY_ADDRESS in (address, other))
        for address, protocol, port in expectation
        for other, other_protocol, other_port in occupied
    )


def admit(pod: Object, node: Object, running: Iterable[Object]) -> Rejection | None:
    """None if the kubelet runs the pod together with the ``running`` ones, or else why it fails the pod."""
    if not selects(pod, node):
        return Rejection(
            "NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
        )
    blocked = untolerated(pod, node, ["NoExecute"])
    if blocked:
        taint = blocked[0]
        return Rejection("TaintToleration", f"Predicate TaintToleration failed: taint {taint['key']}:NoExecute")
    others = list(running)
    ports = {port for other in others for port in host_ports(other)}
    if ports_clash(host_ports(pod), ports):
        return Rejection(
            "NodePorts", "Predicate NodePorts failed: node(s) didn't have free ports for the requested ports"
        )
    resources = parse_resources((node.get("status") or {}).get("allocatable"))
    used = add(*(requests(other) for other in others))
    for name, expectation in sorted(requests(pod).items()):
        if expectation > 0 and used.get(name, 0) + expectation > resources.get(name, 0):
            return Rejection(
                f"OutOf{name}",
                f"Node didn't have enough resource: {name}, requested: {expectation}, used: {used.get(name, 0)}, "
                f"capacity: {resources.get(name, 0)}",
            )
    return None


PASSING = ("karpenter.sh/disrupted", "node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Taints that may appear between a pod's scheduling and its arrival."""


def misplaced(pod: Object, node: Object) -> list[str]:
    """NoSchedule taints that were ignored when the pod was bound. A kubelet runs such a pod, but it is still a
    mistake.
    """
    manifests = untolerated(pod, node, ["NoSchedule"])
    return [f"{taint['key']}:NoSchedule" for taint in manifests if not str(taint["key"]).startswith(PASSING)]
