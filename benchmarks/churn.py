"""How often consolidation disrupts pods over a day of load, and what it saves: a model cluster with a virtual clock.

The cluster provisions and disrupts with Tenon's own decisions and default settings. Deployments follow a sine and are
rolled out, jobs come and end. The same load runs once with consolidation and once with WhenEmpty.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.churn_cluster import ModelCluster, six_families
from benchmarks.churn_load import day_of_load
from benchmarks.churn_record import Record
from tenon.apis.nodepool import ConsolidationPolicy

POLICIES: tuple[ConsolidationPolicy, ...] = ("WhenEmptyOrUnderutilized", "WhenEmpty")
MOST_EVICTIONS = 2
"""The goal: no pod is disrupted more often in a day."""


def as_document(record: Record, cpu: float) -> dict[str, Any]:
    """Return the figures of one run."""
    waits = sorted(record.waits)
    bound = statistics.fmean(sample["lowerBound"] for sample in record.samples) if record.samples else 0.0
    hours = record.samples[-1]["hour"] if record.samples else 0.0
    price = statistics.fmean(sample["price"] for sample in record.samples) if record.samples else 0.0
    return {
        "podsCreated": record.created,
        "podsEvicted": dict(record.evicted),
        "evictionsPerPod": {str(times): number for times, number in sorted(_times(record).items())},
        "podsAboveGoal": sum(number for times, number in _times(record).items() if times > MOST_EVICTIONS),
        "movedAgainWithin10m": record.soon_again,
        "commands": dict(record.commands.most_common()),
        "rejected": dict(record.rejected.most_common()),
        "typeSwappedForItself": len(record.same_type),
        "nodesLaunched": dict(record.launched),
        "nodesConsolidatedWithin10m": record.short_lived,
        "nodesBoughtWithin10mOfConsolidation": record.bought_back,
        "unschedulable": record.unschedulable,
        "waitSeconds": {"p50": waits[len(waits) // 2], "p99": waits[int(len(waits) * 0.99)]} if waits else {},
        "nodeHours": round(record.node_hours, 1),
        "dollars": round(record.dollars, 2),
        "hours": hours,
        "priceOverBound": round(price / bound, 3) if bound else 0.0,
        "looks": record.looks,
        "cpuSeconds": round(cpu, 1),
        "samples": record.samples,
    }


def _times(record: Record) -> dict[int, int]:
    """How many pods were evicted how often."""
    found: dict[int, int] = {}
    for times in record.evictions.values():
        found[times] = found.get(times, 0) + 1
    return found


ROWS: tuple[tuple[str, Callable[[Mapping[str, Any]], str]], ...] = (
    ("dollars", lambda d: f"{d['dollars']:,.2f}"),
    ("price / lower bound", lambda d: f"{d['priceOverBound']:.3f}"),
    ("node hours", lambda d: f"{d['nodeHours']:,.1f}"),
    ("pods created", lambda d: f"{d['podsCreated']:,}"),
    ("pods evicted", lambda d: _listed(d["podsEvicted"])),
    ("pods evicted once, twice, ...", lambda d: _listed(d["evictionsPerPod"])),
    (f"pods evicted more than {MOST_EVICTIONS} times (0)", lambda d: f"{d['podsAboveGoal']:,}"),
    ("pods evicted again within 10 min", lambda d: f"{d['movedAgainWithin10m']:,}"),
    ("commands, nodes to nodes", lambda d: _listed(d["commands"])),
    ("commands that the validation ended", lambda d: _listed(d["rejected"])),
    ("types swapped for themselves (0)", lambda d: f"{d['typeSwappedForItself']:,}"),
    ("nodes launched", lambda d: _listed(d["nodesLaunched"])),
    ("nodes consolidated within 10 min of launch", lambda d: f"{d['nodesConsolidatedWithin10m']:,}"),
    ("nodes bought within 10 min of consolidation", lambda d: f"{d['nodesBoughtWithin10mOfConsolidation']:,}"),
    ("seconds until a pod is bound: p50, p99", lambda d: _listed(d["waitSeconds"])),
    ("looks", lambda d: f"{d['looks']:,}"),
    ("CPU seconds", lambda d: f"{d['cpuSeconds']:,}"),
)


def _listed(figures: Mapping[str, float]) -> str:
    return ", ".join(f"{name}: {number:,}" for name, number in figures.items()) or "0"


def as_tables(documents: Mapping[str, Mapping[str, Any]]) -> list[Table]:
    """Return the prices by hour, and the figures of each run."""
    hourly = Table(title="dollars an hour (nodes)")
    for name in ("hour", "pods", "lower bound", *documents):
        hourly.add_column(name, justify="right")
    runs = [document["samples"] for document in documents.values()]
    for each in zip(*runs, strict=True):
        if each[0]["hour"] % 2 == 0:
            first = each[0]
            own = (f"{sample['price']:.3f} ({sample['nodes']})" for sample in each)
            hourly.add_row(f"{first['hour']:g}", f"{first['pods']:,}", f"{first['lowerBound']:.3f}", *own)
    figures = Table(title="the whole time")
    figures.add_column("")
    for name in documents:
        figures.add_column(name, justify="right")
    for title, shown in ROWS:
        figures.add_row(title, *(shown(document) for document in documents.values()))
    return [hourly, figures]


def main() -> int:
    """Run the command. Return 1 if a goal is missed."""
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.churn", description=__doc__)
    arguments.add_argument("--hours", type=float, default=24.0)
    arguments.add_argument("--pods", type=int, default=400, help="about how many at the peak")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--consolidate-after", type=float, default=60.0, help="seconds")
    arguments.add_argument("--budget", default="10%")
    arguments.add_argument("--look-every", type=float, default=60.0, help="seconds between two looks")
    arguments.add_argument(
        "--placement",
        choices=("planned", "spread"),
        default="planned",
        help="evicted pods go to the planned node, or to the emptiest",
    )
    arguments.add_argument("--log", action="store_true", help="print each command to stderr")
    arguments.add_argument("-o", "--output", choices=("table", "json"), default="table")
    given = arguments.parse_args()
    documents: dict[str, dict[str, Any]] = {}
    for policy in POLICIES:
        cluster = ModelCluster(
            six_families(),
            policy,
            consolidate_after=given.consolidate_after,
            budget=given.budget,
            look_every=given.look_every,
            placement=given.placement,
        )
        began = time.process_time()
        record = cluster.run(day_of_load(given.hours, given.pods, given.seed), given.hours * 3_600)
        documents[policy] = as_document(record, time.process_time() - began)
        for line in record.log if given.log else ():
            print(line, file=sys.stderr)
    if given.output == "json":
        print(json.dumps(documents, indent=2))
    else:
        console = Console(width=None if sys.stdout.isatty() else 140)
        for table in as_tables(documents):
            console.print(table)
    missed = any(document["podsAboveGoal"] or document["typeSwappedForItself"] for document in documents.values())
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
