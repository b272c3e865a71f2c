"""The scale-in of `benchmarks.scale_in` on the model cluster: without a sandbox, the same in each run, in seconds.

It shows how much depends on when commands begin. Pods leave within five seconds, so their nodes become due one after
another, and kube-scheduler puts each evicted pod on the emptiest node without a taint.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from rich.console import Console
from rich.table import Table

from activities.planning.look_pace import MAX_SETTLE, SETTLE_STEP
from activities.planning.moves import MAX_COMMANDS
from benchmarks.catalogue import ec2_pool
from benchmarks.churn_cluster import ModelCluster
from benchmarks.churn_disruption import Pace
from benchmarks.churn_load import Change, Scale, Workload
from benchmarks.load_run import loads
from benchmarks.scale_in import MAX_CPUS, WITHIN
from benchmarks.wasteful import CATEGORY
from tenon.kube.requirements import IN, LT, Requirement
from tenon.scheduling.model import Pool

FALLS_AT = 308.0
"""Seconds after which the load falls. The next look but two comes while nodes become due."""
FALLS_WITHIN = 5.0
STEPS = 10
APART = 0.13
"""Seconds between two validations, as measured on two cores with 148 nodes."""
NOW = Pace(MAX_COMMANDS, SETTLE_STEP.total_seconds(), MAX_SETTLE)
PACES = {
    "commands of a look evict together": NOW,
    "one after another": replace(NOW, apart=APART),
    "together, but no look waits": replace(NOW, settle_step=0.0),
    "one after another, no look waits, 25 commands": Pace(most=25, apart=APART),
}


@dataclass(frozen=True, slots=True)
class Figures:
    """The results of one run."""

    before: int
    nodes: int
    ratio: float
    """Price over a repack."""
    still_after: float
    """Seconds from the scale-in until the last node came or left."""
    drained: int
    moved_again: int
    """Pods that were moved more than once."""
    launched: int
    """Nodes, after the scale-in."""
    rejected: int
    """Commands that their validation ended."""


def pool() -> Pool:
    """Return the NodePool of `benchmarks.scale_in`."""
    found = ec2_pool()
    families = Requirement.new(CATEGORY, IN, ("c", "m", "r"))
    sizes = Requirement.new("karpenter.k8s.aws/instance-cpu", LT, (str(MAX_CPUS + 1),))
    requirements = found.requirements.with_(families).with_(sizes)
    kinds = [kind for kind in found.instance_types if requirements.intersects(kind.requirements)]
    return replace(found, requirements=requirements, instance_types=kinds)


def measure(before: int, after: int, pace: Pace) -> Figures:
    """Run ``before`` pods, scale to ``after``, and play until long after the last move."""
    cluster = ModelCluster(
        pool(), "WhenEmptyOrUnderutilized", consolidate_after=30.0, budget="100%", placement="spread", pace=pace
    )
    record = cluster.run(_changes(before, after), FALLS_AT + WITHIN)
    courses = [(seconds, count) for seconds, count in record.node_changes if seconds >= FALLS_AT]
    earlier = [count for seconds, count in record.node_changes if seconds < FALLS_AT]
    return Figures(
        before=earlier[-1],
        nodes=courses[-1][1],
        ratio=round(cluster.price_over_repack(), 4),
        still_after=round(courses[-1][0] - FALLS_AT, 1),
        drained=len(record.evictions),
        moved_again=sum(times > 1 for times in record.evictions.values()),
        launched=sum(record.launched.values()) - earlier[-1],
        rejected=sum(record.rejected.values()),
    )


def _changes(before: int, after: int) -> Iterator[tuple[float, Change]]:
    for load, less in zip(loads(before), loads(after), strict=True):
        workload = Workload(load.name, {"cpu": load.cpu, "memory": load.memory})
        yield 0.0, Scale(workload, load.pods)
        for step in range(1, STEPS + 1):
            gone = (load.pods - less.pods) * step // STEPS
            yield FALLS_AT + FALLS_WITHIN * step / STEPS, Scale(workload, load.pods - gone)


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.scale_in_model", description=__doc__)
    arguments.add_argument("--pods", type=int, default=1000, help="how many at first, half of them small")
    arguments.add_argument("--to", type=int, default=700, help="how many stay")
    arguments.add_argument("-o", "--output", choices=("table", "json"), default="table")
    given = arguments.parse_args()
    found = {name: measure(given.pods, given.to, pace) for name, pace in PACES.items()}
    if given.output == "json":
        print(json.dumps({name: asdict(figures) for name, figures in found.items()}, indent=2))
        return
    table = Table(title=f"{given.pods} pods to {given.to} on the model cluster")
    for column in ("", "nodes", "ratio", "still after s", "pods drained", "twice", "launched", "rejected"):
        table.add_column(column, justify="right" if column else "left")
    for name, one in found.items():
        own = (one.ratio, one.still_after, one.drained, one.moved_again, one.launched, one.rejected)
        table.add_row(name, f"{one.before} to {one.nodes}", *map(str, own))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
