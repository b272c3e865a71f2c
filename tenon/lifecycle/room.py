"""How much of a node its pods take: effective requests and host ports of raw Pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tenon.kube import pods
from tenon.kube.pods import Object
from tenon.resources import PODS, Resources, add, maximum, parse_resources, subtract, total

HostPort = tuple[str, int, str]
"""(address, port, protocol); the address 0.0.0.0 is every address."""
ANY_ADDRESS = "0.0.0.0"


def requests(pod: Object) -> Resources:
    """What the scheduler reserves for a pod, itself counted as one of ``pods``.

    Containers and sidecars run together; each init container runs beside the sidecars that started before it;
    requests of the pod as a whole replace the sum; overhead comes on top.
    """
    spec = pod.get("spec") or {}
    sidecars: Resources = {}
    starting: Resources = {}
    for container in spec.get("initContainers") or ():
        own = _requests(container)
        if container.get("restartPolicy") == "Always":
            sidecars = add(sidecars, own)
            starting = maximum(starting, sidecars)
        else:
            starting = maximum(starting, add(sidecars, own))
    running = add(sidecars, total(_requests(container) for container in spec.get("containers") or ()))
    effective = maximum(starting, running) | _requests(spec)
    return add(effective, parse_resources(spec.get("overhead")), {PODS: 1})


def free(node: Object, node_pods: Iterable[Object]) -> Resources:
    """What the node's allocatable leaves after its pods; pods that have ended take nothing."""
    allocatable = parse_resources((node.get("status") or {}).get("allocatable"))
    return subtract(allocatable, total(requests(pod) for pod in node_pods if not pods.is_terminal(pod)))


def suits(wanted: Resources, available: Resources) -> bool:
    """Whether what a pod asks for is there; what it does not ask for may be overdrawn."""
    return all(units <= available.get(name, 0) for name, units in wanted.items() if units > 0)


def host_ports(pod: Object) -> set[HostPort]:
    """The ports of the node that a pod occupies."""
    spec = pod.get("spec") or {}
    return {
        (port.get("hostIP") or ANY_ADDRESS, int(port["hostPort"]), port.get("protocol") or "TCP")
        for port in _ports(spec)
        if port.get("hostPort")
    }


def clash(left: Iterable[HostPort], right: Iterable[HostPort]) -> HostPort | None:
    """The first port of ``left`` that ``right`` occupies on the same address, or on all of them."""
    taken = set(right)
    for address, port, protocol in sorted(left):
        for other, other_port, other_protocol in taken:
            if (port, protocol) != (other_port, other_protocol):
                continue
            if ANY_ADDRESS in (address, other) or address == other:
                return (address, port, protocol)
    return None


def _ports(spec: Object) -> Iterator[Object]:
    for container in spec.get("containers") or ():
        yield from container.get("ports") or ()
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            yield from container.get("ports") or ()


def _requests(holder: Object) -> Resources:
    return parse_resources((holder.get("resources") or {}).get("requests"))
