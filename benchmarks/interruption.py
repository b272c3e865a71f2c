"""How fast the interruption queue is drained, with Karpenter's mix of messages: ``python -m benchmarks.interruption``.

A third of the messages are scheduled changes, a third spot interruptions, a third state changes, each about another
node. For each message the controller taints the Node, deletes the NodeClaim and deletes the message. Three processes
share the machine: the sandbox's SQS, an API server that only stores what is written, and the reader with its cache. The
API server sends no watch events. The limit on requests is raised (``--qps``): a node that leaves costs three requests,
so the default of 200 a second would be the result.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import msgspec
import psutil
from aiohttp import web

from activities import metrics
from activities.ec2.client import Ec2
from activities.ec2.queue import MessageQueue
from activities.kubernetes.client import Kube
from activities.kubernetes.events import EventRecorder
from benchmarks.fleet_objects import claim_json, claim_name, node_json, node_name, provider_id
from sandbox.ec2.authorization.identities import environment, worker_key
from sandbox.ports import free_ports
from tenon.kube.decode import decode_node, decode_nodeclaim
from tenon.lifecycle.messages.launch import OfferingRef
from worker.cache.cluster import ClusterCache
from worker.controllers.interruption import InterruptionController
from worker.controllers.interruption_check import InstanceReader

SIZES = (100, 1_000, 5_000, 15_000)
GOAL = 15_000
"""Messages a minute."""
QUEUE = "sandbox"
DEPTH = 100
"""Messages that wait in the queue at most, because the mock's calls take longer the longer its queue is."""
KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: played, cluster: {server: "http://127.0.0.1:%d"}}]
contexts: [{name: played, context: {cluster: played, user: nobody}}]
users: [{name: nobody, user: {}}]
current-context: played
"""


def messages(count: int) -> Iterator[str]:
    """The bodies, in turns of the three kinds."""
    for number in range(count):
        instance = provider_id(number).rsplit("/", 1)[-1]
        kind = number % 3
        if kind == 0:
            entity = {"entityValue": instance}
            health = {"service": "EC2", "eventTypeCategory": "scheduledChange", "affectedEntities": [entity]}
            source, name, detail = "aws.health", "AWS Health Event", health
        elif kind == 1:
            source, name = "aws.ec2", "EC2 Spot Instance Interruption Warning"
            detail = {"instance-id": instance, "instance-action": "terminate"}
        else:
            source, name = "aws.ec2", "EC2 Instance State-change Notification"
            detail = {"instance-id": instance, "state": "stopping"}
        yield json.dumps(
            {
                "version": "0",
                "id": f"12345678-1234-1234-1234-{number:012d}",
                "detail-type": name,
                "source": source,
                "account": "123456789012",
                "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "region": "us-west-2",
                "resources": [f"arn:aws:ec2:us-west-2:123456789012:instance/{instance}"],
                "detail": detail,
            }
        )


def confirming(count: int) -> InstanceReader:
    """An EC2 that confirms every message at once."""
    ids = {provider_id(number).rsplit("/", 1)[-1] for number in range(count)}
    return InstanceReader(lambda asked: dict.fromkeys(asked, "stopping"), lambda: ids)


def serve_queue(port: int, folder: str, count: int) -> None:
    """Serve SQS, and keep the queue filled until all messages are sent. Runs in its own process."""
    from moto.sqs.models import sqs_backends

    from sandbox.ec2.authorization.identities import ACCOUNT
    from sandbox.ec2.region import REGION
    from sandbox.ec2.server import start

    server = start(Path(folder), port=port)
    events, backend = server.world.events, sqs_backends[ACCOUNT][REGION]
    for body in messages(count):
        while len(backend.queues[QUEUE]._messages) >= DEPTH:
            time.sleep(0.01)
        events.put(body)
    server.thread.join()


def serve_api(port: int, count: int) -> None:
    """Store what is written to Nodes and NodeClaims. Runs in its own process."""
    nodes = {node_name(number): msgspec.json.decode(node_json(number, 1)) for number in range(count)}
    deleted: set[str] = set()
    calls = Counter[str]()

    async def answer(request: web.Request) -> web.Response:
        kind, _, name = request.path.rpartition("/")
        calls[
            f"{request.method} {kind.rpartition('/')[2] if name in nodes or request.method == 'DELETE' else name}"
        ] += 1
        body = await request.read()
        if request.path == "/figures":
            tainted = sum(bool(node["spec"].get("taints")) for node in nodes.values())
            return web.json_response({"tainted": tainted, "deleted": len(deleted), "calls": dict(calls)})
        if request.method == "DELETE":
            deleted.add(name)
            return web.json_response({"kind": "Status", "status": "Success"})
        if request.method == "POST":
            return web.Response(body=body, status=201, content_type="application/json")
        node = nodes[name]
        if request.method == "PATCH":
            patch = msgspec.json.decode(body)
            patch.get("metadata", {}).pop("resourceVersion", None)
            for part in ("metadata", "spec"):
                node[part] |= patch.get(part, {})
        return web.Response(body=msgspec.json.encode(node), content_type="application/json")

    async def main() -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        await asyncio.Event().wait()

    asyncio.run(main())


class Cache(ClusterCache):
    """A cache that is filled once and watches nothing."""

    def __init__(self, count: int) -> None:
        super().__init__(None)  # type: ignore[arg-type]
        for number in range(count):
            # Each in a NodePool of its own: a fifth of the nodes of a NodePool leave at once for scheduled changes.
            body = re.sub(rb'"pool-\d+"', b'"pool-of-%d"' % number, claim_json(number, 1))
            self.claims.on_event(claim_name(number), decode_nodeclaim(body))
            self.nodes.on_event(node_name(number), decode_node(node_json(number, 1)))

    async def wait_synced(self) -> None:
        """Return at once."""


async def drain(count: int, qps: float, folder: Path) -> list[str]:
    """Drain so many messages, and return the row of the table."""
    queue_port, api_port = free_ports(2)
    context = multiprocessing.get_context("spawn")
    servers = [
        context.Process(target=serve_api, args=(api_port, count), daemon=True),
        context.Process(target=serve_queue, args=(queue_port, str(folder / "ec2"), count), daemon=True),
    ]
    cache = Cache(count)
    for server in servers:
        server.start()
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG % api_port, encoding="utf-8")
    kube = await Kube.connect(str(kubeconfig), qps=qps, burst=int(qps))
    taken_back: list[OfferingRef] = []
    try:
        for address in (f"http://127.0.0.1:{queue_port}/sandbox/health", f"http://127.0.0.1:{api_port}/figures"):
            await asyncio.to_thread(_wait_for, address)
        queue = MessageQueue(Ec2("us-west-2", f"http://127.0.0.1:{queue_port}").sqs, QUEUE)
        controller = InterruptionController(
            kube, EventRecorder(kube), cache, queue, "played", taken_back.extend, confirming(count)
        )
        used = [psutil.Process(pid) for pid in (os.getpid(), *(server.pid for server in servers))]
        before = [_cpu(process) for process in used]
        began, deleted = time.monotonic(), _deleted()
        task = asyncio.create_task(controller.run())
        while _deleted() < deleted + count:
            assert not task.done(), task
            await asyncio.sleep(0.02)
        seconds = time.monotonic() - began
        cpu = [_cpu(process) - earlier for process, earlier in zip(used, before, strict=True)]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        figures = await asyncio.to_thread(_figures, api_port)
    finally:
        await kube.close()
        for server in servers:
            server.terminate()
            server.join()
    complete = figures["tainted"] == figures["deleted"] == count and len(taken_back) == (count + 1) // 3
    return [
        f"{count:,}",
        f"{seconds:.1f}",
        f"{count / seconds * 60:,.0f} ({GOAL:,})",
        *(f"{seconds:.1f}" for seconds in cpu),
        f"{sum(figures['calls'].values()):,}",
        "yes" if complete else f"NO: {figures['tainted']:,} tainted, {figures['deleted']:,} deleted",
    ]


def _wait_for(address: str) -> None:
    until = time.monotonic() + 60
    while True:
        with contextlib.suppress(OSError):
            urlopen(address, timeout=5).close()
            return
        if time.monotonic() > until:
            raise TimeoutError(f"{address} does not answer")
        time.sleep(0.1)


def _figures(port: int) -> Any:
    with urlopen(f"http://127.0.0.1:{port}/figures", timeout=60) as answer:
        return json.load(answer)


def _deleted() -> float:
    return float(metrics.INTERRUPTION_DELETED._value.get())


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.interruption", description=__doc__)
    parser.add_argument("--messages", type=int, help="only this size")
    parser.add_argument("--qps", type=float, default=5_000.0, help="limit on requests to the API server per second")
    chosen = parser.parse_args()
    os.environ |= environment(worker_key(QUEUE))
    columns: list[str] = [
        "messages",
        "seconds",
        "a minute",
        "reader CPU s",
        "API CPU s",
        "SQS CPU s",
        "requests",
        "all",
    ]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)
    for size in [chosen.messages] if chosen.messages else SIZES:
        with tempfile.TemporaryDirectory() as folder:
            row: Any = asyncio.run(drain(size, chosen.qps, Path(folder)))
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
