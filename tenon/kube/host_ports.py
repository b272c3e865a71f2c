"""The ports of a node that its pods occupy."""

from __future__ import annotations

from tenon.kube.structs import PodSpec

HostPort = tuple[str, int, str]
"""(address, port, protocol); the address 0.0.0.0 is every address."""
ANY_ADDRESS = "0.0.0.0"


def host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """(address, port, protocol) of every port that the pod takes on its node; no address means all of them.

    In the node's own network every port is one of the node's. The API server writes that into pods, but not into the
    templates that they are made from.
    """
    lasting = [c for c in spec.init_containers or () if c.restart_policy == "Always"]
    return tuple(
        (port.host_ip or "0.0.0.0", number, port.protocol or "TCP")
        for container in [*(spec.containers or ()), *lasting]
        for port in container.ports or ()
        if (number := port.host_port or (port.container_port if spec.host_network else 0))
    )
