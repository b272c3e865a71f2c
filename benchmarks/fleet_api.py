"""A fake API server for a generated cluster: it serves lists, watches and the leader's writes, in its own process.

The cluster changes by itself: Nodes send heartbeats, and pods of Deployments are replaced one by one. The benchmark
sends commands over HTTP under /fleet/, for example to empty some nodes or to add a pod that fits nowhere.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from aiohttp import web

from benchmarks.fleet_objects import (
    CONDITIONS,
    LONG_AGO,
    POOLS,
    Fleet,
    FleetPod,
    claim_json,
    claim_name,
    class_body,
    node_json,
    node_name,
    now,
    pod_json,
    pool_body,
)

PODS, NODES = "/api/v1/pods", "/api/v1/nodes"
CLAIMS, NODE_POOLS = "/apis/karpenter.sh/v1/nodeclaims", "/apis/karpenter.sh/v1/nodepools"
CLASSES = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses"
NAMESPACES = "/api/v1/namespaces"
TICK = 0.05
"""Seconds between two batches of events."""
MADE, BOUND, STARTING, RUNNING, ENDING, ENDED, GONE = range(7)
"""The events of a pod's life, including those of its status."""
AT_ONCE = 40
"""Number of pods that are starting or terminating at any time."""


class PlayedApi:
    """The cluster and its watchers."""

    def __init__(
        self, fleet: Fleet, *, node_events: float, pod_events: float, policy: str, consolidate_after: str
    ) -> None:
        """``node_events`` and ``pod_events`` are rates per second."""
        self.fleet = fleet
        self.version = 1000
        self._rates = node_events, pod_events
        self._beats: dict[int, tuple[int, str]] = {}
        self._noted: dict[int, tuple[int, str, str]] = {}
        """What the leader wrote on NodeClaims: version, lastPodEventTime and conditions."""
        self._numbers = {claim_name(number): number for number in range(fleet.nodes)}
        self._objects: dict[str, dict[str, dict[str, Any]]] = {
            NODE_POOLS: {
                f"pool-{n}": pool_body(n, policy=policy, consolidate_after=consolidate_after) for n in range(POOLS)
            },
            CLASSES: {"default": class_body()},
            NAMESPACES: {"default": {"metadata": {"name": "default", "uid": "uid-default"}}},
        }
        for result in self._objects.values():
            for body in result.values():
                body["metadata"]["resourceVersion"] = str(self.version)
        self._watchers: dict[str, list[asyncio.Queue[bytes]]] = {}
        self._chance = random.Random(1)
        self._next = fleet.pods
        self._under_way: deque[tuple[FleetPod, int]] = deque()
        self._running = list(fleet.by_key.values())
        self.writes = 0

    # Objects

    def items(self, path: str) -> Iterator[bytes]:
        """Yield every object of a collection."""
        if path == PODS:
            yield from (pod_json(pod) for pod in list(self.fleet.by_key.values()))
        elif path == NODES:
            yield from (node_json(n, *self._beats.get(n, (1, LONG_AGO))) for n in range(self.fleet.nodes))
        elif path == CLAIMS:
            yield from (claim_json(n, *self._noted.get(n, (1, LONG_AGO, CONDITIONS))) for n in range(self.fleet.nodes))
        else:
            yield from (json.dumps(body).encode() for body in self._objects.get(path, {}).values())

    # Events

    async def live(self) -> None:
        """Generate events until cancelled."""
        began, requests = time.monotonic(), [0, 0]
        while True:
            await asyncio.sleep(TICK)
            passed = time.monotonic() - began
            for kind, step in enumerate((self._heartbeat, self._pod_event)):
                while requests[kind] < passed * self._rates[kind]:
                    requests[kind] += 1
                    step()

    def _heartbeat(self) -> None:
        number = self._chance.randrange(self.fleet.nodes)
        self._beats[number] = self._new_version(), now()
        self._tell(NODES, "MODIFIED", node_json(number, *self._beats[number]))

    def _pod_event(self) -> None:
        """Perform the next step of a pod replacement. Several dozen are in progress at any time."""
        if len(self._under_way) < AT_ONCE:
            self._replace_one()
        pod, stage = self._under_way.popleft()
        if stage == MADE:
            where, pod.node = pod.node, ""
            self._put(pod, "ADDED")
            pod.node = where
        elif stage == GONE:
            self._delete(pod)
        else:
            if stage == BOUND:
                pod.bound = now()
            elif stage == RUNNING:
                pod.phase = "Running"
                self._running.append(pod)
            elif stage in (ENDING, ENDED):
                pod.ending, pod.phase = pod.ending or now(), "Running" if stage == ENDING else "Succeeded"
            self._put(pod, "MODIFIED")
        if stage not in (RUNNING, GONE):
            self._under_way.append((pod, stage + 1))

    def _replace_one(self) -> None:
        """Terminate a random pod and start another one on its node."""
        index = self._chance.randrange(len(self._running))
        self._running[index], self._running[-1] = self._running[-1], self._running[index]
        old = self._running.pop()
        self._under_way.append((old, ENDING))
        self._under_way.append((FleetPod(f"app-{self._next}", old.workload, old.node), MADE))
        self._next += 1

    def empty(self, count: int) -> int:
        """Delete all pods of this many nodes at once, and return the number of pods."""
        empty = {node_name(number) for number in range(count)}
        pods = [pod for pod in self._running if pod.node in empty]
        self._running = [pod for pod in self._running if pod.node not in empty]
        for pod in pods:
            self._delete(pod)
        return len(pods)

    def refuse(self, name: str) -> None:
        """Add a pod that kube-scheduler cannot schedule and that fits no instance type."""
        self._put(FleetPod(name, 1, refused=True), "ADDED")

    def remove(self, name: str) -> None:
        """Delete a pod."""
        self._delete(self.fleet.by_key[f"default/{name}"])

    def _put(self, pod: FleetPod, kind: str) -> None:
        pod.version = self._new_version()
        self.fleet.by_key[pod.key] = pod
        self._tell(PODS, kind, pod_json(pod))

    def _delete(self, pod: FleetPod) -> None:
        pod.version = self._new_version()
        if self.fleet.by_key.pop(pod.key, None) is not None:
            self._tell(PODS, "DELETED", pod_json(pod))

    def _new_version(self) -> int:
        self.version += 1
        return self.version

    def _tell(self, path: str, kind: str, body: bytes) -> None:
        line = b'{"type":"' + kind.encode() + b'","object":' + body + b"}\n"
        for queue in self._watchers.get(path, ()):
            queue.put_nowait(line)

    # Requests

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one client request."""
        path, query = request.path.rstrip("/"), request.query
        if path == "/version":
            return web.json_response({"major": "1", "minor": "33", "gitVersion": "v1.33.0"})
        if path.startswith("/fleet/"):
            return self._order(path, query)
        if request.method == "GET" and query.get("watch") == "true":
            return await self._watch(request, path)
        if request.method == "GET":
            return self._get(path, query)
        self.writes += 1
        return self._write(request.method, path, await request.json() if request.can_read_body else {})

    def _order(self, path: str, query: Any) -> web.Response:
        orders: dict[str, Callable[[], object]] = {
            "/fleet/empty": lambda: self.empty(int(query["count"])),
            "/fleet/refuse": lambda: self.refuse(query["name"]),
            "/fleet/remove": lambda: self.remove(query["name"]),
            "/fleet/writes": lambda: self.writes,
        }
        return web.json_response({"answer": orders[path]()})

    def _get(self, path: str, query: Any) -> web.Response:
        if path in (PODS, NODES, CLAIMS) or path in self._objects or not self._is_object(path):
            items = [] if query.get("labelSelector") else list(self.items(path))
            head = json.dumps({"metadata": {"resourceVersion": str(self.version)}}).encode()
            body = head[:-1] + b',"items":[' + b",".join(items) + b"]}"
            return web.Response(body=body, content_type="application/json")
        collection, _, name = path.rpartition("/")
        result = self._objects.get(collection, {}).get(name)
        return web.json_response(result) if result is not None else _missing(path)

    @staticmethod
    def _is_object(path: str) -> bool:
        """True if the path names an object rather than a collection or a group."""
        parts = path.strip("/").split("/")
        rest = parts[2:] if parts[0] == "api" else parts[3:]
        return len(rest) in (2, 4) and not (rest[0] == "namespaces" and len(rest) == 3)

    def _write(self, method: str, path: str, body: dict[str, Any]) -> web.Response:
        path = path.removesuffix("/status")
        if method == "POST":
            collection, name = path, body["metadata"].get("name") or f"made-{self._new_version()}"
        else:
            collection, _, name = path.rpartition("/")
        if collection == CLAIMS:
            number = self._numbers.get(name)
            if number is None:
                return _missing(path)
            _, stamp, conditions = self._noted.get(number, (1, LONG_AGO, CONDITIONS))
            status = body.get("status") or {}
            if "conditions" in status:
                conditions = json.dumps(status["conditions"])
            self._noted[number] = self._new_version(), status.get("lastPodEventTime") or stamp, conditions
            output = claim_json(number, *self._noted[number])
            self._tell(CLAIMS, "MODIFIED", output)
            return web.Response(body=output, content_type="application/json")
        present_items = self._objects.setdefault(collection, {})
        if method == "DELETE":
            present_items.pop(name, None)
            return web.json_response({"kind": "Status"})
        entries = present_items.get(name)
        if entries is None and method == "PATCH":
            return _missing(path)
        merged = _merged(entries or {}, body) if method == "PATCH" else body
        merged["metadata"] = {"uid": f"uid-{name}", **merged.get("metadata", {}), "name": name}
        merged["metadata"]["resourceVersion"] = str(self._new_version())
        present_items[name] = merged
        self._tell(collection, "MODIFIED" if entries else "ADDED", json.dumps(merged).encode())
        return web.json_response(merged)

    async def _watch(self, request: web.Request, path: str) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        began = self.version  # events during the initial list follow it
        self._watchers.setdefault(path, []).append(queue)
        try:
            if request.query.get("sendInitialEvents") == "true":
                for item in self.items(path):
                    await response.write(b'{"type":"ADDED","object":' + item + b"}\n")
                await response.write(_bookmark(began, {"k8s.io/initial-events-end": "true"}))
            while True:
                try:
                    async with asyncio.timeout(30.0):
                        lines = [await queue.get()]
                except TimeoutError:
                    lines = [_bookmark(self.version, {})]
                while not queue.empty():
                    lines.append(queue.get_nowait())
                await response.write(b"".join(lines))
        except ConnectionError:
            return response
        finally:
            self._watchers[path].remove(queue)


def _bookmark(version: int, annotations: dict[str, str]) -> bytes:
    mark = {"metadata": {"resourceVersion": str(version), "annotations": annotations}}
    return json.dumps({"type": "BOOKMARK", "object": mark}).encode() + b"\n"


def _missing(path: str) -> web.Response:
    status = {"kind": "Status", "code": 404, "reason": "NotFound", "message": f"{path} not found"}
    return web.json_response(status, status=404)


def _merged(entries: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Apply a merge patch."""
    merged = dict(entries)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = _merged(merged.get(key) or {}, value)
        else:
            merged[key] = value
    return merged


def serve(
    port: int, nodes: int, pods: int, node_events: float, pod_events: float, policy: str, consolidate_after: str
) -> None:
    """Serve on the loopback interface until terminated. Runs in its own process."""

    async def main() -> None:
        api = PlayedApi(
            Fleet(nodes, pods),
            node_events=node_events,
            pod_events=pod_events,
            policy=policy,
            consolidate_after=consolidate_after,
        )
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{path:.*}", api.answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        await api.live()

    asyncio.run(main())
