"""A large cluster at rest and in a bad moment, in the real cluster process: what its event loop, CPU and memory say.

``python -m benchmarks.fleet``: 5,000 nodes and 100,000 pods, with 17 Node status writes and 200 pod events a second;
``--nodes 1000 --pods 20000``: the smaller one. The API server is played (`benchmarks.fleet_api`), Temporal and the
cluster process are real, and so are the workflows that ask it to plan and to disrupt; those of nodes only wait. Phases:

- start: until every object is read and the process leads
- rest: nothing happens but heartbeats and pods that are replaced
- empty: all pods of 200 nodes go at once, and the nodes are candidates from then on
- pods: one after the other, pods appear that fit nowhere; from the pod's creation to the moment that a batch opens
  for it is how late the view is, and the plan that follows is made from a snapshot of the whole cluster
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker as TemporalWorker

from benchmarks.fleet_api import serve
from benchmarks.fleet_workflows import WAITING
from benchmarks.running import WITHOUT_GRPC
from sandbox.ec2.authorization import identities
from sandbox.ports import free_ports
from worker.runtime.telemetry.profiling import gather
from worker.runtime.temporal.temporal_plugin import TenonPlugin
from workflows import names
from workflows.disruption import DisruptionWorkflow
from workflows.provisioner import ProvisionerWorkflow

CLUSTER = "fleet"
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: fleet
clusters: [{name: fleet, cluster: {server: "http://127.0.0.1:%d"}}]
users: [{name: fleet, user: {token: none}}]
contexts: [{name: fleet, context: {cluster: fleet, user: fleet}}]
"""
START_SECONDS = 600.0
SETTLE_SECONDS = 75.0
"""Wait after the start. The lag metric is the maximum of one minute, and the first sweep must be over."""
PROBES, PROBE_SECONDS = 5, 12.0


@dataclass(frozen=True, slots=True)
class Phase:
    """The measurements of one phase."""

    name: str
    seconds: float
    cpu: float
    """As a fraction of one core."""
    pause: float
    """The longest pause of the event loop, in seconds."""
    computed: float
    """The longest uninterrupted computation of the event loop, in seconds.

    The rest of a pause is waiting for a core.
    """
    memory: int
    """Maximum resident memory, in bytes."""
    late: float | None = None
    """Maximum delay of the view, in seconds."""


class Measured:
    """Measures the cluster process from outside."""

    def __init__(self, process: subprocess.Popen[bytes], metrics: Path) -> None:
        self._process = psutil.Process(process.pid)
        self._metrics = metrics

    def lag(self, metric: str = "lag") -> float:
        """Return the longest pause of the event loop in the last minute, from the process's metric."""
        from prometheus_client import CollectorRegistry
        from prometheus_client.multiprocess import MultiProcessCollector

        registry = CollectorRegistry()
        MultiProcessCollector(registry, path=str(self._metrics))  # type: ignore[no-untyped-call]
        return registry.get_sample_value(f"tenon_event_loop_{metric}_seconds", {"process": "cluster"}) or 0.0

    def during(self, name: str, seconds: float) -> Phase:
        """Measure for this many seconds."""
        began, used = time.monotonic(), self._cpu()
        memory, pause, computed = 0, 0.0, 0.0
        while time.monotonic() < began + seconds:
            time.sleep(1.0)
            memory = max(memory, self._process.memory_info().rss)
            pause, computed = max(pause, self.lag()), max(computed, self.lag("computing"))
        passed = time.monotonic() - began
        return Phase(name, passed, (self._cpu() - used) / passed, pause, computed, memory)

    def _cpu(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)


def order(port: int, subject: str, **query: object) -> Any:
    """Send a command to the fake API server and return its answer."""
    text = "&".join(f"{name}={value}" for name, value in query.items())
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/fleet/{subject}?{text}", timeout=60) as answer:
        return json.load(answer)["answer"]


@asynccontextmanager
async def temporal() -> AsyncIterator[str]:
    """Start a Temporal server with workers for the workflows, and yield its address."""
    binary = str(Path(sys.executable).parent / "temporal")
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=binary, search_attributes=list(names.SEARCH_ATTRIBUTES), plugins=[TenonPlugin()]
    ) as environment:
        worker = TemporalWorker(
            environment.client,
            task_queue=names.task_queue(CLUSTER),
            workflows=[ProvisionerWorkflow, DisruptionWorkflow, *WAITING],
            max_cached_workflows=20,
        )
        async with worker:
            yield environment.client.service_client.config.target_host


@contextmanager
def cluster_process(folder: Path, address: str, api: int, ec2: int) -> Iterator[tuple[Measured, Path]]:
    """Start the real cluster process, and yield it with its log."""
    metrics, log, kubeconfig = folder / "metrics", folder / "cluster.log", folder / "kubeconfig"
    metrics.mkdir()
    kubeconfig.write_text(KUBECONFIG % api)
    command = (sys.executable, "-m", "worker.runtime.cluster_process")
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "TEMPORAL_", "KUBE", "OTEL_"))},
        **WITHOUT_GRPC,
        "KUBECONFIG": str(kubeconfig),
        "TEMPORAL_ADDRESS": address,
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{ec2}",
        "AWS_REGION": "us-west-2",
        **identities.environment(identities.worker_key(CLUSTER)),
        "CLUSTER_NAME": CLUSTER,
        "CLUSTER_ENDPOINT": f"http://127.0.0.1:{api}",
        "PROMETHEUS_MULTIPROC_DIR": str(metrics),
        "ENABLE_PROFILING": "true",
    }
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output)
    try:
        yield Measured(process, metrics), log
    finally:
        process.terminate()
        process.wait()


def said(log: Path, message: str, after: int, seconds: float) -> tuple[datetime, int]:
    """Return when the process logged a message after the offset ``after`` in its log, and the size of the log then.

    Raises:
        TimeoutError: the process does not log it in time.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for line in log.read_bytes()[after:].splitlines():
            if message.encode() in line:
                return datetime.fromisoformat(json.loads(line)["time"]), log.stat().st_size
        time.sleep(0.2)
    raise TimeoutError(f"{log} does not say {message!r}")


def probe(log: Path, api: int) -> float:
    """Return the maximum delay, in seconds, until the view included a new pod."""
    late = []
    for number in range(PROBES):
        end, appeared = log.stat().st_size, time.time()
        order(api, "refuse", name=f"probe-{number}")
        observations, end = said(log, "waits to batch", end, 60.0)
        late.append(observations.timestamp() - appeared)
        said(log, "could not schedule a pod", end, 120.0)
        order(api, "remove", name=f"probe-{number}")
        time.sleep(PROBE_SECONDS)
    print(f"view late by {statistics.median(late):.3f} s in the middle, {max(late):.3f} s at most", flush=True)
    return max(late)


@contextmanager
def played(options: argparse.Namespace, folder: Path) -> Iterator[tuple[int, int]]:
    """Start the fake API server and EC2, and yield their ports."""
    api, ec2 = free_ports(2)
    command = [sys.executable, "-m", "sandbox.ec2.server", f"--port={ec2}", f"--state={folder / 'ec2'}"]
    arguments = (api, options.nodes, options.pods, options.node_events, options.pod_events)
    disruption = (options.policy, f"{options.empty_after}s")
    server = multiprocessing.get_context("spawn").Process(target=serve, args=arguments + disruption, daemon=True)
    cloud = subprocess.Popen([*command, f"--cluster={CLUSTER}"], stderr=subprocess.DEVNULL)
    server.start()
    try:
        _wait_for(f"http://127.0.0.1:{api}/version")
        _wait_for(f"http://127.0.0.1:{ec2}/sandbox/health")
        yield api, ec2
    finally:
        server.kill()
        cloud.terminate()


def _wait_for(url: str) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    raise TimeoutError(f"{url} does not answer")


def measure(options: argparse.Namespace, folder: Path, address: str) -> list[Phase]:
    """Run all phases against the Temporal server at this address."""
    with played(options, folder) as (api, ec2), cluster_process(folder, address, api, ec2) as (measured, log):
        try:
            began = time.monotonic()
            said(log, "plans for the cluster", 0, START_SECONDS)
            start = time.monotonic() - began
            print(f"leads after {start:.0f} s; event loop late by {measured.lag():.3f} s at most", flush=True)
            time.sleep(options.settle)
            if options.profile is not None:  # not part of a measured phase, because profiling has a cost
                options.profile.write_text(gather(str(folder / "metrics"), "profile", options.seconds) or "")
            before = order(api, "writes")
            phases = [measured.during("rest", options.seconds)]
            print(f"{order(api, 'writes') - before} writes at rest", flush=True)
            before = order(api, "writes")
            removal = order(api, "empty", count=options.empty)
            phases.append(measured.during(f"{options.empty} empty nodes", options.seconds))
            print(f"{removal} pods went; {order(api, 'writes') - before} writes since", flush=True)
            time.sleep(min(60.0, options.settle))
            with ThreadPoolExecutor(1) as beside:
                probing = beside.submit(probe, log, api)
                last = measured.during("pods that fit nowhere", PROBES * PROBE_SECONDS)
                phases.append(replace(last, late=probing.result()))
            return phases
        finally:
            if options.log is not None:
                options.log.write_bytes(log.read_bytes())


async def with_temporal(options: argparse.Namespace) -> list[Phase]:
    """Start Temporal and run all phases."""
    with tempfile.TemporaryDirectory() as scratch:
        async with temporal() as address:
            return await asyncio.to_thread(measure, options, Path(scratch), address)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--node-events", type=float, default=17.0, help="status writes of Nodes a second")
    parser.add_argument("--pod-events", type=float, default=200.0, help="events of pods a second")
    parser.add_argument("--empty", type=int, default=200, help="nodes that lose all their pods at once")
    parser.add_argument("--empty-after", type=int, default=30, help="consolidateAfter of the NodePools, in seconds")
    parser.add_argument(
        "--policy",
        default="WhenEmptyOrUnderutilized",
        help="consolidationPolicy of the NodePools; with WhenEmpty, no look simulates where pods could go",
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="length of a phase")
    parser.add_argument(
        "--settle", type=float, default=SETTLE_SECONDS, help="seconds after the start that do not count"
    )
    parser.add_argument("--log", type=Path, help="where to keep the log of the cluster process")
    parser.add_argument("--profile", type=Path, help="where to write the idle process's profile")
    options = parser.parse_args()
    phases = asyncio.run(with_temporal(options))
    table = Table(title=f"{options.nodes:,} nodes, {options.pods:,} pods")
    for heading in (
        "phase",
        "seconds",
        "CPU, of a core",
        "worst pause, ms",
        "of computing, ms",
        "memory, MiB",
        "view late, s",
    ):
        table.add_column(heading, justify="left" if heading == "phase" else "right")
    for phase in phases:
        late = "" if phase.late is None else f"{phase.late:.2f}"
        figures = [
            f"{phase.seconds:.0f}",
            f"{phase.cpu:.1%}",
            f"{phase.pause * 1000:.0f}",
            f"{phase.computed * 1000:.0f}",
            f"{phase.memory / 2**20:.0f}",
        ]
        table.add_row(phase.name, *figures, late)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
