"""Serves metrics.k8s.io to the sandbox's API server: ``python -m sandbox.metrics.server --port ...``.

It stores nothing: it answers each request from the current pods and the annotations of their Deployments. While it
serves, an APIService registers it with the API server. An APIService without a server would break every client's
discovery, so this process deletes it at its end, and the supervisor does so if this process was killed.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import signal
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import DEPLOYMENTS, NODES, PODS, REPLICASETS, SERVICES, Resource
from sandbox.metrics import API_SERVICE, GROUP_VERSION, SERVICE, SERVICE_NAMESPACE
from sandbox.metrics.usage import Use, usage
from sandbox.ports import LOOPBACK
from tenon.kube.structs import Object

Document = dict[str, Any]

WINDOW = "1s"
"""The averaging window. An autoscaler ignores samples from before a pod was ready for this long."""


def resources() -> Document:
    """The APIResourceList for discovery."""
    pods = {"name": "pods", "singularName": "pod", "namespaced": True, "kind": "PodMetrics", "verbs": ["get", "list"]}
    nodes = {**pods, "name": "nodes", "singularName": "node", "namespaced": False, "kind": "NodeMetrics"}
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": GROUP_VERSION, "resources": [nodes, pods]}


def pod_metrics(pod: Object, uses: Sequence[Use], now: str) -> Document:
    """The PodMetrics of one pod."""
    containers = [{"name": use.container, "usage": _quantities(use.millicores, use.memory)} for use in uses]
    return {**_metrics("PodMetrics", pod, now), "containers": containers}


def node_metrics(node: Object, uses: Sequence[Use], now: str) -> Document:
    """The NodeMetrics of one node: the sum over its pods."""
    together = _quantities(sum(use.millicores for use in uses), sum(use.memory for use in uses))
    return {**_metrics("NodeMetrics", node, now), "usage": together}


def listed(kind: str, items: Sequence[Document]) -> Document:
    """A list object of this kind."""
    return {"kind": f"{kind}List", "apiVersion": GROUP_VERSION, "metadata": {}, "items": list(items)}


def not_found(subject: str) -> Document:
    """The Status for an object without metrics."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": "NotFound",
        "code": 404,
        "message": f"{subject} has no metrics: only running objects have them",
    }


def registration(port: int, authority: bytes) -> list[Document]:
    """The Service and the APIService through which the API server reaches this server, by name and on this machine."""
    group, version = GROUP_VERSION.split("/")
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": SERVICE, "namespace": SERVICE_NAMESPACE},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": API_SERVICE},
            "spec": {
                "group": group,
                "version": version,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "caBundle": base64.b64encode(authority).decode(),
                "service": {"name": SERVICE, "namespace": SERVICE_NAMESPACE, "port": port},
            },
        },
    ]


def _metrics(kind: str, measured: Object, now: str) -> Document:
    metadata: Mapping[str, Any] = measured["metadata"]
    metadatas = {key: metadata[key] for key in ("name", "namespace", "labels") if metadata.get(key)}
    return {
        "kind": kind,
        "apiVersion": GROUP_VERSION,
        "metadata": {**metadatas, "creationTimestamp": now},
        "timestamp": now,
        "window": WINDOW,
    }


def _quantities(millicores: int, memory: int) -> dict[str, str]:
    return {"cpu": f"{millicores}m", "memory": f"{-(-memory // 1024)}Ki"}


API_SERVICES = Resource("apiregistration.k8s.io", "v1", "apiservices", False, "APIService")
ROOT = f"/apis/{GROUP_VERSION}"


class Metrics:
    """The HTTP handlers for the metrics of pods and nodes."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self.registered = False

    def application(self) -> web.Application:
        """The application, with every path that the API server requests."""
        application = web.Application()
        application.router.add_get("/readyz", self.ready)
        application.router.add_get(ROOT, self.discover)
        application.router.add_get("/openapi/v2", self.schema)
        for path in ("/pods", "/namespaces/{namespace}/pods"):
            application.router.add_get(ROOT + path, self.pods)
        application.router.add_get(ROOT + "/namespaces/{namespace}/pods/{name}", self.pod)
        application.router.add_get(ROOT + "/nodes", self.nodes)
        application.router.add_get(ROOT + "/nodes/{name}", self.node)
        return application

    async def ready(self, _: web.Request) -> web.Response:
        """Whether this server is registered with the API server."""
        return web.Response(text="ok") if self.registered else web.Response(status=503, text="not registered yet")

    async def discover(self, _: web.Request) -> web.Response:
        """List the resources that are served."""
        return web.json_response(resources())

    async def schema(self, _: web.Request) -> web.Response:
        """Serve an empty schema, because the API server would otherwise retry and log errors forever."""
        return web.json_response({"swagger": "2.0", "info": {"title": "metrics", "version": "v1"}, "paths": {}})

    async def pods(self, request: web.Request) -> web.Response:
        """The metrics of the pods that match."""
        namespace = request.match_info.get("namespace", "")
        selector = request.query.get("labelSelector", "")
        pods = await self._kube.list(PODS, namespace=namespace, label_selector=selector)
        uses, now = await self._uses(namespace), _now()
        keys = {f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": pod for pod in pods}
        return web.json_response(
            listed("PodMetrics", [pod_metrics(pod, uses[key], now) for key, pod in keys.items() if key in uses])
        )

    async def pod(self, request: web.Request) -> web.Response:
        """The metrics of one pod."""
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        pod = await self._kube.get(PODS, name, namespace)
        uses = (await self._uses(namespace)).get(f"{namespace}/{name}")
        if pod is None or uses is None:
            return web.json_response(not_found(f"pod {namespace}/{name}"), status=404)
        return web.json_response(pod_metrics(pod, uses, _now()))

    async def nodes(self, request: web.Request) -> web.Response:
        """The metrics of the nodes that match."""
        nodes = await self._kube.list(NODES, label_selector=request.query.get("labelSelector", ""))
        uses, now = await self._uses_by_node(), _now()
        items = [node_metrics(node, uses.get(node["metadata"]["name"], []), now) for node in nodes]
        return web.json_response(listed("NodeMetrics", items))

    async def node(self, request: web.Request) -> web.Response:
        """The metrics of one node."""
        name = request.match_info["name"]
        node = await self._kube.get(NODES, name)
        if node is None:
            return web.json_response(not_found(f"node {name}"), status=404)
        return web.json_response(node_metrics(node, (await self._uses_by_node()).get(name, []), _now()))

    async def _uses(self, namespace: str = "") -> dict[str, list[Use]]:
        pods, replica_sets, deployments = await asyncio.gather(
            *(self._kube.list(resource, namespace=namespace) for resource in (PODS, REPLICASETS, DEPLOYMENTS))
        )
        return usage(pods, replica_sets, deployments)

    async def _uses_by_node(self) -> dict[str, list[Use]]:
        uses = await self._uses()
        together: dict[str, list[Use]] = {}
        for pod in await self._kube.list(PODS):
            own = uses.get(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}", [])
            together.setdefault(pod["spec"].get("nodeName", ""), []).extend(own)
        return together


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def serve(port: int, kubeconfig: Path, pki: Path) -> None:
    """Serve on loopback until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    trust = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trust.load_cert_chain(pki / "server.crt", pki / "server.key")
    kube = await Kube.connect(str(kubeconfig))
    metrics = Metrics(kube)
    runner = web.AppRunner(metrics.application(), access_log=None)
    try:
        await runner.setup()
        await web.TCPSite(runner, LOOPBACK, port, ssl_context=trust).start()
        for document in registration(port, (pki / "ca.crt").read_bytes()):
            resource = API_SERVICES if document["kind"] == "APIService" else SERVICES
            metadata = document["metadata"]
            namespace = metadata.get("namespace", "")
            await kube.patch(resource, metadata["name"], document, namespace=namespace, kind="apply")
        metrics.registered = True
        await stop.wait()
    finally:
        with suppress(ApiError):  # the API server may have ended first
            await kube.delete(API_SERVICES, API_SERVICE)
        await runner.cleanup()
        await kube.close()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m sandbox.metrics.server", description="Serve metrics.k8s.io.")
    parser.add_argument("--port", required=True, type=int)
    parser.add_argument("--kubeconfig", required=True, type=Path)
    parser.add_argument("--pki", required=True, type=Path)
    options = parser.parse_args()
    asyncio.run(serve(options.port, options.kubeconfig, options.pki))


if __name__ == "__main__":
    main()
