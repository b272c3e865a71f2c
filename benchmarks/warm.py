"""How much sooner a pod runs on a warm node than on a launched one, in the same run and with the same boot delay.

Each round creates two pods at the same moment: one for a NodePool that keeps a stopped instance, one for a NodePool
that keeps none. The figure is the ratio of the times until they run, so it depends on the machine less than seconds do.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS, PODS
from benchmarks.cluster import LABEL, node_pool, prepare
from benchmarks.running import running
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tenon.apis.warm import STOPPED
from tenon.kube import object_json

BOOT_SECONDS = 30.0
WITHIN = 300.0
LOOK_SECONDS = 0.1
NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class Round:
    """Seconds from the creation of a pod until it runs."""

    cold: float
    warm: float

    @property
    def ratio(self) -> float:
        """The time with a warm node as a part of the time with a launch."""
        return self.warm / self.cold


async def measure(sandbox: Sandbox, rounds: int) -> list[Round]:
    """Measure one round after the other.

    Raises:
        TimeoutError: a node or a pod did not come.
    """
    kube = await Kube.connect(str(sandbox.kubeconfig))
    try:
        return [await _round(sandbox, kube, number) for number in range(rounds)]
    finally:
        await kube.close()


async def _round(sandbox: Sandbox, kube: Kube, number: int) -> Round:
    cold, warm = f"cold-{number}", f"warm-{number}"
    await prepare(sandbox, kube, _pool(cold, {}))
    await prepare(sandbox, kube, _pool(warm, {labels.WARM: "1"}))
    await asyncio.wait_for(_stopped(sandbox, kube, warm), WITHIN)
    times = await asyncio.gather(*(asyncio.wait_for(_seconds(kube, name), WITHIN) for name in (cold, warm)))
    return Round(*times)


def _pool(name: str, annotations: dict[str, str]) -> dict[str, Any]:
    """A NodePool whose nodes have room for one pod."""
    pool = node_pool(least_cpus=2, most_cpus=2)
    pool["metadata"] = {"name": name, "annotations": annotations}
    pool["spec"]["template"]["metadata"] = {"labels": {LABEL: name}}
    return pool


async def _stopped(sandbox: Sandbox, kube: Kube, pool: str) -> None:
    while True:
        claims = await kube.list(NODECLAIMS, label_selector=f"{labels.NODEPOOL}={pool}")
        if [object_json.annotations(claim).get(labels.WARM) for claim in claims] == [STOPPED]:
            instance_id = claims[0]["status"]["providerID"].rsplit("/", 1)[-1]
            instances = await asyncio.to_thread(sandbox.ec2().instances)
            if any(item["id"] == instance_id and item["state"] == "stopped" for item in instances):
                return
        await asyncio.sleep(LOOK_SECONDS)


async def _seconds(kube: Kube, pool: str) -> float:
    """Seconds until a new pod runs on a node of this NodePool."""
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1"}}}
    spec = {"nodeSelector": {LABEL: pool}, "containers": [container], "terminationGracePeriodSeconds": 0}
    await kube.create(PODS, {"metadata": {"name": pool, "namespace": NAMESPACE}, "spec": spec}, NAMESPACE)
    began = time.perf_counter()
    while True:
        pod = await kube.get(PODS, pool, NAMESPACE)
        if pod is not None and pod["status"].get("phase") == "Running":
            return time.perf_counter() - began
        await asyncio.sleep(LOOK_SECONDS)


def as_table(rounds: list[Round]) -> Table:
    """The rounds, and their medians."""
    table = Table(title="Seconds from the pod until it runs")
    for title in ("", "launch", "warm node", "ratio"):
        table.add_column(title, justify="right")
    for number, result in enumerate(rounds, start=1):
        table.add_row(str(number), f"{result.cold:.1f}", f"{result.warm:.1f}", f"{result.ratio:.2f}")
    medians = [statistics.median(values) for values in zip(*((r.cold, r.warm, r.ratio) for r in rounds), strict=True)]
    table.add_row("median", f"{medians[0]:.1f}", f"{medians[1]:.1f}", f"{medians[2]:.2f}")
    return table


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.warm", description=__doc__)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--boot", type=float, default=BOOT_SECONDS, help="seconds of a first boot")
    arguments.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = arguments.parse_args()
    with running(Console(stderr=True), boot_delay=options.boot) as (sandbox, _):
        rounds = asyncio.run(measure(sandbox, options.rounds))
    if options.output == "json":
        text = [{"cold": result.cold, "warm": result.warm, "ratio": result.ratio} for result in rounds]
        print(json.dumps(text, indent=2))
        return
    Console().print(as_table(rounds))


if __name__ == "__main__":
    main()
