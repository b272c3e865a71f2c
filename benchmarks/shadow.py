"""Judges `tenon shadow`: what it predicts next to upstream Karpenter, and what Tenon pays and disturbs.

The load is the same, and both halves run at the same time, each in a sandbox of its own.

Upstream's KWOK build gets EC2's instance types with the room and the prices that Tenon's nodes have. The shadow runs as
the chart's Deployment runs it, and the API server's audit log says what it asked for.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import NODECLAIMS
from benchmarks import bill, churn, cluster
from benchmarks.beside import READS, Beside, Requests, requests_of
from benchmarks.cluster import EXAMPLES, Object
from benchmarks.comparison import upstream
from benchmarks.disturbances import Disturbances, read_disturbances
from benchmarks.running import Worker, sandboxed, started
from cli.simulating.files import read_catalogue_file
from sandbox import audit
from sandbox.cluster import Sandbox
from sandbox.kwok import KUBELET_ANNOTATION
from sandbox.ports import free_ports
from tenon.apis import labels
from tenon.resources import CPU, MEMORY, PODS, format_quantity
from tenon.scheduling.model import InstanceType

FAMILIES = ("c5", "m5", "r5", "c6i", "m6i", "r6i", "c7i", "m7i", "r7i")
MAX_CPUS = 16
BOOT_SECONDS = 10.0
GOAL, DISTURBANCE_GOAL = 0.03, 0.1
"""The largest difference between the prediction and the truth, of the price and of disturbances."""
KWOK_OVERHEAD = {CPU: 100, MEMORY: 10 * 2**20}
"""What upstream's provider reserves on each node."""


@dataclass(frozen=True, slots=True)
class Truth:
    """What an autoscaler really paid and disturbed."""

    dollars: float
    seconds: float
    nodes: float
    """The mean number."""
    disturbances: Disturbances

    @property
    def rate(self) -> float:
        """Dollars an hour."""
        return 3600 * self.dollars / self.seconds


@dataclass(frozen=True, slots=True)
class Figures:
    """The result of a run."""

    seconds: float
    upstream: Truth
    predicted: float
    """Dollars an hour of the model."""
    tenon: Truth
    first_report: float
    """Seconds from the shadow's start until its file had a report."""
    reads: Mapping[str, int]
    writes: int
    """Requests of the shadow that were no reads."""
    cpu_share: float
    """Cores that the shadow used."""
    memory: int
    """The most bytes of memory that it had."""
    report: Object

    @property
    def error(self) -> float:
        """The difference of the prediction, as a part of the truth."""
        return self.predicted / self.tenon.rate - 1

    @property
    def disturbance_errors(self) -> tuple[float, float]:
        """The differences of the predicted numbers of moved pods and of removed nodes, as parts of the truth."""
        predicted, truth = reported_disturbances(self.report, "tenon"), self.tenon.disturbances
        return _error(predicted.pods, truth.pods), _error(predicted.nodes, truth.nodes)


def reported_disturbances(report: Object, controller: str) -> Disturbances:
    """Return what a report says of a controller, ``karpenter`` or ``tenon``."""
    counts = report["disturbance"][controller]
    return Disturbances(counts["podsMoved"], counts["nodesRemoved"])


def _error(predicted: int, truth: int) -> float:
    if not truth:
        return float("inf") if predicted else 0.0
    return predicted / truth - 1


def types() -> list[InstanceType]:
    """Return the instance types that both may use."""
    catalogue, _ = read_catalogue_file(None)
    return [
        kind
        for kind in catalogue
        if kind.name.partition(".")[0] in FAMILIES
        and "metal" not in kind.name
        and kind.capacity[CPU] <= 1000 * MAX_CPUS
    ]


def kwok_types(kinds: Sequence[InstanceType]) -> list[Object]:
    """Return the types in the form of upstream's provider, with the room that Tenon's nodes have for pods."""
    return [
        {
            "name": kind.name,
            "architecture": "amd64",
            "operatingSystems": ["linux"],
            "resources": {
                name: format_quantity(name, kind.allocatable[name] + KWOK_OVERHEAD.get(name, 0))
                for name in (CPU, MEMORY, PODS, "ephemeral-storage")
            },
            "offerings": [
                {
                    "Price": offering.price,
                    "Available": True,
                    "Requirements": [
                        {"key": labels.CAPACITY_TYPE, "operator": "In", "values": [offering.capacity_type]},
                        {"key": labels.ZONE, "operator": "In", "values": [offering.zone]},
                    ],
                }
                for offering in kind.offerings
            ],
        }
        for kind in kinds
    ]


def node_pool(kinds: Sequence[InstanceType], *, kwok: bool) -> Object:
    """Return the NodePool of one of both: on-demand nodes of the same types, which consolidates."""
    requirements: list[Object] = [
        {"key": labels.ARCH, "operator": "In", "values": ["amd64"]},
        {"key": labels.OS, "operator": "In", "values": ["linux"]},
        {"key": labels.CAPACITY_TYPE, "operator": "In", "values": [labels.ON_DEMAND]},
        {"key": labels.INSTANCE_TYPE, "operator": "In", "values": [kind.name for kind in kinds]},
    ]
    group, kind_name = ("karpenter.kwok.sh", "KWOKNodeClass") if kwok else (labels.AWS_GROUP, "EC2NodeClass")
    spec = {
        "nodeClassRef": {"group": group, "kind": kind_name, "name": "default"},
        "requirements": requirements,
        "expireAfter": "Never",
    }
    annotations = {"metadata": {"annotations": {KUBELET_ANNOTATION: "ready"}}} if kwok else {}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {"template": {**annotations, "spec": spec}, "disruption": cluster.CONSOLIDATES},
    }


class Meter:
    """Adds up what the NodeClaims of a cluster cost."""

    def __init__(self, kube: Kube, kinds: Sequence[InstanceType]) -> None:
        self._kube, self._kinds = kube, kinds
        self.dollars = self.seconds = self.node_seconds = 0.0

    async def run(self) -> None:
        """Look every second until canceled."""
        before, rate, nodes = time.monotonic(), 0.0, 0
        while True:
            await asyncio.sleep(1)
            now = time.monotonic()
            self.dollars += rate * (now - before) / 3600
            self.node_seconds += nodes * (now - before)
            self.seconds += now - before
            before = now
            try:
                claims = await self._kube.list(NODECLAIMS)
            except ApiError:  # what was true a second ago counts until the API server answers again
                continue
            rate, nodes = bill.price_of(claims, self._kinds), len(claims)

    def truth(self, disturbances: Disturbances) -> Truth:
        """What was paid and disturbed so far."""
        return Truth(self.dollars, self.seconds, self.node_seconds / self.seconds, disturbances)


async def _metered(
    sandbox: Sandbox, kube: Kube, kinds: Sequence[InstanceType], seconds: float, teams: int = churn.TEAMS
) -> Truth:
    meter = Meter(kube, kinds)
    async with asyncio.TaskGroup() as tasks:
        measuring = tasks.create_task(meter.run())
        await churn.play(sandbox, kube, seconds, teams)
        measuring.cancel()
    await asyncio.sleep(2 * audit.WRITTEN_WITHIN)
    return meter.truth(await asyncio.to_thread(read_disturbances, sandbox.layout.audit_log))


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a run beside upstream gave."""

    upstream: Truth
    report: Object
    beside: Beside
    requests: Requests

    @property
    def rate(self) -> float:
        """Dollars an hour of the model."""
        return 3600 * float(self.report["cost"]["tenonDollars"]) / float(self.report["observedSeconds"])


def predict(
    console: Console,
    seconds: float,
    kinds: Sequence[InstanceType],
    folder: Path,
    metrics_port: int,
    teams: int = churn.TEAMS,
) -> Prediction:
    """Run upstream, the load of so many teams, and the shadow, which serves its metrics at the port."""
    manifests = folder / "manifests.yaml"
    pool = node_pool(kinds, kwok=False)
    manifests.write_text((EXAMPLES / "ec2nodeclass.yaml").read_text() + "\n---\n" + json.dumps(pool))
    types_file = folder / "types.json"
    types_file.write_text(json.dumps(kwok_types(kinds)))
    module = upstream.KARPENTER.module_folder(upstream.MODULE)
    with sandboxed(console, audit=True, keep_logs=folder / "logs-upstream") as sandbox:
        sandbox.stop_component("temporal")
        autoscaler = upstream.install(sandbox, module)
        autoscaler.environment["INSTANCE_TYPES_FILE_PATH"] = str(types_file)

        async def run() -> Prediction:
            kube = await Kube.connect(str(sandbox.kubeconfig), qps=200, burst=300)
            await upstream.prepare(sandbox, kube, node_pool(kinds, kwok=True), delay=f"{BOOT_SECONDS:.0f}s")
            beside = Beside(sandbox, folder, manifests, metrics_port)
            await asyncio.to_thread(beside.start)
            watching = asyncio.create_task(beside.watch())
            await beside.until_watching()
            truth = await _metered(sandbox, kube, kinds, seconds, teams)
            watching.cancel()
            report = await asyncio.to_thread(beside.stop)
            await asyncio.sleep(2 * audit.WRITTEN_WITHIN)
            requests = requests_of(sandbox.layout.audit_log, beside.user)
            await kube.close()
            return Prediction(truth, report, beside, requests)

        with started(autoscaler):
            return asyncio.run(run())


def pay(seconds: float, kinds: Sequence[InstanceType], folder: Path) -> Truth:
    """Run Tenon with the same load, without a word: this is the half of a child process."""
    with sandboxed(
        Console(quiet=True), boot_delay=BOOT_SECONDS, audit=True, keep_logs=folder / "logs-tenon"
    ) as sandbox:
        worker = Worker(sandbox)

        async def run() -> Truth:
            kube = await Kube.connect(str(sandbox.kubeconfig), qps=200, burst=300)
            await cluster.prepare(sandbox, kube, node_pool(kinds, kwok=False))
            truth = await _metered(sandbox, kube, kinds, seconds)
            await kube.close()
            return truth

        with started(worker):
            return asyncio.run(run())


def measure(console: Console, seconds: float, folder: Path) -> Figures:
    """Predict, and compare with the truth."""
    kinds = types()
    (port,) = free_ports(1)
    with ProcessPoolExecutor(1) as child:
        paid = child.submit(pay, seconds, kinds, folder)
        prediction = predict(console, seconds, kinds, folder, port)
    predicted = reported_disturbances(prediction.report, "tenon")
    console.print(
        f"predicted ${prediction.rate:.4f}/h and {predicted}, upstream paid ${prediction.upstream.rate:.4f}/h",
        highlight=False,
    )
    truth = paid.result()
    verbs = prediction.requests.by_verb
    return Figures(
        seconds=seconds,
        upstream=prediction.upstream,
        predicted=prediction.rate,
        tenon=truth,
        first_report=prediction.beside.first_report,
        reads={verb: count for verb, count in verbs.items() if verb in READS},
        writes=sum(count for verb, count in verbs.items() if verb not in READS),
        cpu_share=prediction.beside.cpu_seconds / seconds,
        memory=prediction.beside.memory,
        report=prediction.report,
    )


def as_table(figures: Figures) -> Table:
    """Format the run."""
    pods_error, nodes_error = figures.disturbance_errors
    title = (
        f"{figures.seconds / 60:.0f} minutes of churn: prediction of the price {figures.error:+.1%} (goal {GOAL:.0%}), "
        f"of moved pods {pods_error:+.1%}, of removed nodes {nodes_error:+.1%} (goal {DISTURBANCE_GOAL:.0%})"
    )
    table = Table("", "$/h", "nodes", "pods moved", "nodes removed", title=title)
    report_rate = 3600 * figures.report["cost"]["karpenterDollars"] / figures.report["observedSeconds"]
    for name, rate, mean_nodes, disturbances in (
        ("upstream", figures.upstream.rate, f"{figures.upstream.nodes:.1f}", figures.upstream.disturbances),
        ("the shadow says of upstream", report_rate, "", reported_disturbances(figures.report, "karpenter")),
        ("the shadow predicts for Tenon", figures.predicted, "", reported_disturbances(figures.report, "tenon")),
        ("Tenon", figures.tenon.rate, f"{figures.tenon.nodes:.1f}", figures.tenon.disturbances),
    ):
        table.add_row(name, f"{rate:.4f}", mean_nodes, str(disturbances.pods), str(disturbances.nodes))
    table.caption = (
        f"first report after {figures.first_report:.0f} s, {sum(figures.reads.values())} reads, {figures.writes} "
        f"writes, {figures.cpu_share:.2f} cores, {figures.memory / 2**20:.0f} MiB"
    )
    return table


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.shadow", description=__doc__)
    arguments.add_argument("--minutes", type=float, default=30.0, help="how long the load comes and goes")
    arguments.add_argument("--folder", type=Path, help="keeps the report, the state and the logs")
    arguments.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        figures = measure(Console(stderr=True), 60 * options.minutes, folder)
    if options.output == "json":
        errors = {"error": figures.error, "disturbanceErrors": figures.disturbance_errors}
        print(json.dumps({**asdict(figures), **errors}, indent=2))
    else:
        Console().print(as_table(figures))


if __name__ == "__main__":
    main()
