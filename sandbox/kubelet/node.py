"""The component that runs the node: ``python -m sandbox.kubelet.node --state FOLDER --port PORT ...``.

It answers 200 on ``/readyz`` when the Node is Ready. It ends when the node ends, and leaves no process, mount, cgroup
or file of it.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from sandbox.kubectl import KubectlError, command
from sandbox.kubelet import ADDRESS, AWS_PORT, NODE, TEMPORAL_PORT, cgroups, forwarders, images, programs
from sandbox.kubelet.cleaning import clean
from sandbox.kubelet.configuration import Files
from sandbox.kubelet.namespaces import Namespaces
from sandbox.layout import SERVICE_IP, Layout
from sandbox.ports import LOOPBACK
from sandbox.status import Process

READY_SECONDS = 240


@dataclass(frozen=True)
class Ports:
    """Ports on the machine's loopback."""

    ready: int
    proxy: int
    kubernetes: int
    temporal: int
    aws: int


async def run(layout: Layout, ports: Ports) -> int:
    """Run the node until a signal or its end. Returns the exit status: 1 if it ended by itself."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    inside = ("-m", "sandbox.kubelet.inside", f"--state={layout.root}")
    namespaces = await Namespaces.start(sys.executable, *inside)
    layout.node_process.write_text(Process.of(namespaces.pid).model_dump_json())
    try:
        network = namespaces.network
        servers = [
            await forwarders.to_machine(network, SERVICE_IP, 443, ports.kubernetes),
            await forwarders.to_machine(network, ADDRESS, TEMPORAL_PORT, ports.temporal),
            await forwarders.to_machine(network, ADDRESS, AWS_PORT, ports.aws),
            await forwarders.to_node(network, ports.proxy, layout),
        ]
        tasks = [
            asyncio.create_task(namespaces.ended()),
            asyncio.create_task(stopping.wait()),
        ]
        ready = asyncio.create_task(serve_when_ready(layout, ports.ready))
        await asyncio.wait({*tasks, ready}, return_when=asyncio.FIRST_COMPLETED)
        if ready.done():
            await ready
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for server in servers:
            server.close()
        return 0 if stopping.is_set() else 1
    finally:
        await namespaces.stop()


async def serve_when_ready(layout: Layout, port: int) -> None:
    """Wait until the Node is Ready, and serve ``/readyz`` from then on.

    Raises:
        KubectlError: it did not become Ready.
    """
    for condition in ("create", "condition=Ready"):
        wait = command(layout.kubeconfig, "wait", f"--for={condition}", f"node/{NODE}", f"--timeout={READY_SECONDS}s")
        # No thread: nothing could end it if the kubelet ends, and this process would wait for it.
        waiting = await asyncio.create_subprocess_exec(*wait, stdout=PIPE, stderr=STDOUT)
        try:
            output, _ = await waiting.communicate()
        finally:
            if waiting.returncode is None:
                waiting.kill()
                await waiting.communicate()
        if waiting.returncode:
            raise KubectlError(f"the Node {NODE} did not become Ready: {output.decode().strip()}")
    app = web.Application()
    app.router.add_get("/readyz", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, port).start()


async def answer(_: web.Request) -> web.Response:
    """Answer that the node is ready."""
    return web.Response(text="ok\n")


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m sandbox.kubelet.node", description="Run one real node.")
    parser.add_argument("--state", required=True, type=Path)
    parser.add_argument("--port", required=True, type=int)
    parser.add_argument("--proxy", required=True, type=int)
    parser.add_argument("--kubernetes", required=True, type=int)
    parser.add_argument("--temporal", required=True, type=int)
    parser.add_argument("--ec2", required=True, type=int)
    options = parser.parse_args()
    layout = Layout.at(options.state)
    try:
        clean(layout)  # of a node that was killed
        layout.node.mkdir(mode=0o700)
        cgroups.create(cgroups.name(layout.root))
        images.write_pause(programs.ensure().pause, Files(layout.node).pause_archive)
        ports = Ports(options.port, options.proxy, options.kubernetes, options.temporal, options.ec2)
        return asyncio.run(run(layout, ports))
    except (OSError, KubectlError) as error:
        print(error, file=sys.stderr)
        return 2
    finally:
        clean(layout)


if __name__ == "__main__":
    sys.exit(main())
