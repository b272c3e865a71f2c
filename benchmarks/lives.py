"""How long one life of a node takes, and how many lives a second the worker launches, starts and ends on the sandbox.

NodeClaims are created directly, so that planning is not part of the figure. Those that are created at once share
launch requests, as NodeClaims of one plan do; otherwise EC2's limit on requests would be the result. Instances boot
within half a second.
``--temporal postgresql`` measures with Temporal's own server.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS
from benchmarks.cluster import node_class
from benchmarks.running import running
from sandbox.cluster import Sandbox
from sandbox.temporal import TemporalKind
from tenon.apis import labels
from tenon.provisioning.launch_groups import annotate

ALONE = 5
"""Single lives, of which the median counts."""
BATCH = 1
"""The plan that the NodeClaims seem to come from."""
STAGES = ("Launched", "Registered", "Initialized")


def claim(name: str) -> dict[str, Any]:
    """Return a NodeClaim of two vCPUs that no NodePool owns."""
    return {
        "metadata": {"name": name, "labels": {labels.BATCH: str(BATCH)}, "annotations": {}},
        "spec": {
            "requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c5.large", "m5.large"]},
            ],
            "resources": {"requests": {"cpu": "1"}},
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        },
    }


async def reached(kube: Kube, stage: str) -> int:
    """Count the NodeClaims whose condition for this stage is True."""
    counts: Counter[str] = Counter()
    for nodeclaim in await kube.list(NODECLAIMS):
        for condition in (nodeclaim.get("status") or {}).get("conditions", []):
            counts[condition["type"]] += condition["status"] == "True"
    return counts[stage]


async def live(kube: Kube, names: Sequence[str]) -> dict[str, float]:
    """Create these claims, wait for each stage, and delete them all. Returns the seconds of each step."""
    seconds: dict[str, float] = {}
    pause = max(0.05, min(0.5, len(names) / 400))  # a look at many claims takes the machine's time from them
    began = time.monotonic()
    gate = asyncio.Semaphore(50)
    bodies = [claim(name) for name in names]
    annotate(bodies, BATCH)

    async def create(body: dict[str, Any]) -> None:
        async with gate:
            await kube.create(NODECLAIMS, body)

    await asyncio.gather(*(create(body) for body in bodies))
    seconds["created"] = time.monotonic() - began
    for stage in STAGES:
        while await reached(kube, stage) < len(names):
            await asyncio.sleep(pause)
        seconds[stage] = time.monotonic() - began
    began = time.monotonic()
    await asyncio.gather(*(kube.delete(NODECLAIMS, name) for name in names))
    while await kube.list(NODECLAIMS):
        await asyncio.sleep(pause)
    seconds["deleted until gone"] = time.monotonic() - began
    return seconds


async def measure(sandbox: Sandbox, count: int, console: Console) -> None:
    """Measure single lives one after another, and many at once."""
    kube = await Kube.connect(str(sandbox.kubeconfig), qps=1000, burst=1000)
    await node_class(sandbox, kube)
    alone = [await live(kube, [f"alone-{number}"]) for number in range(ALONE)]
    together = await live(kube, [f"bench-{number:04d}" for number in range(count)])
    await kube.close()
    table = Table("NodeClaims", "one alone: seconds", f"{count} at once: seconds", "lives a second")
    for key, seconds in together.items():
        table.add_row(key, f"{median(item[key] for item in alone):.2f}", f"{seconds:.1f}", f"{count / seconds:.1f}")
    console.print(table)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--claims", type=int, default=200)
    arguments.add_argument("--temporal", type=TemporalKind, choices=list(TemporalKind), default=TemporalKind.DEV)
    options = arguments.parse_args()
    console = Console()
    with running(console, boot_delay=0.5, temporal=options.temporal) as (sandbox, _):
        asyncio.run(measure(sandbox, options.claims, console))


if __name__ == "__main__":
    main()
