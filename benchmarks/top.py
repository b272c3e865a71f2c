"""CPU time of `tenon top`: to read a cluster once, and for each refresh while heartbeats and pods come and go.

The API server is simulated, in its own process. The screen is painted as on a terminal, but into memory.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import multiprocessing
import tempfile
import time
from pathlib import Path

from rich.console import Console

from activities.clock import utc_now
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from benchmarks.fleet import KUBECONFIG
from benchmarks.fleet_api import serve
from cli.fleet_view.node_prices import table_prices
from cli.fleet_view.painter import Painter
from cli.fleet_view.screen import screen, visible_rows
from cli.fleet_view.view_state import ViewState
from cli.fleet_view.watched_fleet import WatchedFleet
from sandbox.ports import free_ports
from tenon.fleet.order import GroupBy, SortKey

WIDTH, HEIGHT = 200, 60
HEARTBEAT_SECONDS = 10.0
"""How often the kubelet of each Node writes a status."""


async def measure(port: int, folder: Path, refreshes: int, interval: float) -> None:
    """Watch the cluster, refresh the screen, and print the figures."""
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG % port)
    kube = await Kube.connect(str(kubeconfig))
    watched = WatchedFleet(kube, utc_now)
    while True:
        try:
            await watched.prepare()
            break
        except ApiError:  # the server is starting
            await asyncio.sleep(0.2)
    watched.prices = table_prices("us-west-2").prices
    began = time.process_time()
    watching = asyncio.create_task(watched.run())
    await watched.wait_synced()
    print(f"reading the cluster once: {time.process_time() - began:.2f} CPU-seconds")
    written = io.StringIO()
    painter = Painter(Console(file=written, force_terminal=True, width=WIDTH, height=HEIGHT))
    state = ViewState(sort=SortKey.CPU, group=GroupBy.POOL)
    watched.fleet()
    costs, paints = [], []
    for _ in range(refreshes):
        began = time.process_time()
        await asyncio.sleep(interval)  # what arrives meanwhile is decoded
        painting = time.process_time()
        fleet = watched.fleet()
        painter.paint(screen(fleet, state, visible_rows(fleet, state), WIDTH, HEIGHT))
        paints.append(time.process_time() - painting)
        costs.append(time.process_time() - began)
    average, most = sum(costs) / refreshes, max(costs)
    pods = sum(row.pods for row in fleet.rows)
    print(f"{len(fleet.rows)} nodes, {pods} pods, {refreshes} refreshes, {interval:g} s apart")
    print(f"a refresh: {average:.3f} CPU-seconds, at most {most:.3f}; of it painting {sum(paints) / refreshes:.3f}")
    print(f"a refresh writes {written.tell() / refreshes / 1000:.1f} KB to the terminal of {WIDTH} x {HEIGHT}")
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    await kube.close()


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--refreshes", type=int, default=15)
    parser.add_argument("--interval", type=float, default=2.0)
    options = parser.parse_args()
    (port,) = free_ports(1)
    rates = (options.nodes / HEARTBEAT_SECONDS, options.pods / 250)
    arguments = (port, options.nodes, options.pods, *rates, "WhenEmptyOrUnderutilized", "1m")
    server = multiprocessing.get_context("spawn").Process(target=serve, args=arguments, daemon=True)
    server.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(measure(port, Path(folder), options.refreshes, options.interval))
    finally:
        server.terminate()
        server.join()


if __name__ == "__main__":
    main()
