"""The host ports that pods occupy on a node."""

from __future__ import annotations

from collections.abc import Iterable

from tenon.kube.structs import PodSpec

HostPort = tuple[str, int, str]
"""(address, port, protocol)."""
ANY_ADDRESS = "0.0.0.0"
WILD_ADDRESSES = frozenset({"", ANY_ADDRESS, "::"})
"""The addresses that mean every address of the node."""


def host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """Return every port that the pod occupies on its node. A port without an address occupies all addresses.

    With host networking, every container port is a host port. The API server writes this into pods, but not into pod
    templates.
    """
    lasting = [c for c in spec.init_containers or () if c.restart_policy == "Always"]
    return tuple(
        (port.host_ip or ANY_ADDRESS, number, port.protocol or "TCP")
        for container in [*(spec.containers or ()), *lasting]
        for port in container.ports or ()
        if (number := port.host_port or (port.container_port if spec.host_network else 0))
    )


def first_conflict(ports: Iterable[HostPort], other_ports: Iterable[HostPort]) -> HostPort | None:
    """Return the first port of ``ports`` that ``other_ports`` occupies too; None if there is no conflict."""
    right_ports = list(other_ports)
    for address, port, protocol in ports:
        for other, other_port, other_protocol in right_ports:
            if port != other_port or protocol != other_protocol:
                continue
            if address == other or address in WILD_ADDRESSES or other in WILD_ADDRESSES:
                return (address, port, protocol)
    return None
