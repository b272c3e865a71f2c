"""Finds the endpoint behind a Service's address, for the API server: the node has no kube-proxy.

The API server reaches webhooks and aggregated APIs by the Service's ClusterIP. Each connection looks again, because
pods come and go, and the API server keeps its connections.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sandbox.kubectl import kubectl
from sandbox.layout import SERVICE_CIDR

Document = dict[str, Any]


def is_service(host: str) -> bool:
    """Whether an address is a ClusterIP."""
    return ipaddress.ip_address(host) in ipaddress.ip_network(SERVICE_CIDR)


def find(kubeconfig: Path, host: str, port: int) -> tuple[str, int]:
    """The address and port of an endpoint of the Service at ``host``.

    Raises:
        OSError: there is no such Service, or it has no endpoint.
        KubectlError: the API server did not answer.
    """
    listed = kubectl(kubeconfig, "get", "services,endpointslices", "--all-namespaces", "--output=json", timeout=10)
    result = endpoint(json.loads(listed)["items"], host, port)
    if result is None:
        raise OSError(f"no Service has an endpoint for {host}:{port}")
    return result


def endpoint(items: Iterable[Document], host: str, port: int) -> tuple[str, int] | None:
    """The first endpoint that is ready. Slices of a Service that publishes unready endpoints say that all are."""
    objects = list(items)
    for service in objects:
        if service["kind"] != "Service" or service["spec"].get("clusterIP") != host:
            continue
        for expectation in service["spec"]["ports"]:
            if expectation["port"] == port:
                return _in_slices(objects, service["metadata"], expectation.get("name", ""))
    return None


def _in_slices(objects: Iterable[Document], service: Document, port_name: str) -> tuple[str, int] | None:
    for item in objects:
        metadata = item["metadata"]
        of = (metadata["namespace"], metadata.get("labels", {}).get("kubernetes.io/service-name"))
        if item["kind"] != "EndpointSlice" or of != (service["namespace"], service["name"]):
            continue
        ports = [port["port"] for port in item.get("ports") or () if port.get("name", "") == port_name]
        for backend in item.get("endpoints") or ():
            if ports and backend.get("conditions", {}).get("ready", True):
                return backend["addresses"][0], ports[0]
    return None
