"""Formats a comparison as one table, or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from benchmarks.comparison import medians
from benchmarks.comparison.api_requests import Request
from benchmarks.comparison.histories import PerNode
from benchmarks.comparison.machine import Machine
from benchmarks.comparison.medians import Medians, ScaleIn, all_cpu_seconds, is_whole, median_if_all
from benchmarks.scale_in import GOAL_RATIO

FEWEST_REQUESTS = 100
"""Requests that no contender sent so often are only in the JSON output."""
ABSENT = "-"
Row = tuple[str, ...]
PER_NODE: Mapping[str, Callable[[PerNode], float]] = {
    "workflow runs": lambda node: node.runs,
    "history events": lambda node: node.events,
    "workflow tasks": lambda node: node.workflow_tasks,
    "activities": lambda node: node.activities,
    "local activities": lambda node: node.local_activities,
    "signals": lambda node: node.signals,
    "kB of history": lambda node: node.kilobytes,
}


def as_document(pods: int, machine: Machine, result: Mapping[str, Medians]) -> dict[str, Any]:
    """Format the comparison as JSON, with a key for each contender."""
    return {
        "pods": pods,
        "machine": asdict(machine),
        **{contender: medians.as_document(observations) for contender, observations in result.items()},
    }


def as_table(pods: int, machine: Machine, medians: Mapping[str, Medians]) -> Table:
    """Format the comparison as a table with a column for each contender."""
    columns = list(medians.values())
    runs = max(len(column.runs) for column in columns)
    table = Table(title=f"{pods} pods at once, medians of {runs} runs\n{machine}")
    table.add_column("")
    for contender in medians:
        table.add_column(contender, justify="right")
    for row in _results(pods, columns):
        table.add_row(*row)
    for section in (_processes, _requests, _workflows, _scale_in):
        table.add_section()
        for row in section(columns):
            table.add_row(*row)
    return table


def _results(pods: int, columns: Sequence[Medians]) -> Iterator[Row]:
    yield (
        "seconds until all pods run",
        *(f"{column.seconds:.1f}" if column.running >= pods else "never" for column in columns),
    )
    yield "seconds of each run", *(", ".join(f"{item:.1f}" for item in column.runs) for column in columns)
    yield "pods that run", *(f"{column.running}" for column in columns)
    yield "nodes", *(f"{column.nodes:g}" for column in columns)
    yield (
        "price over a repack",
        *(ABSENT if column.price_ratio is None else f"{column.price_ratio:.3f}" for column in columns),
    )
    yield "pods that a kubelet refused", *(f"{column.refused:g}" for column in columns)


def _processes(columns: Sequence[Medians]) -> Iterator[Row]:
    yield "CPU-seconds / peak MB", *("" for _ in columns)
    yield "all", *(f"{column.cpu_seconds:.1f}" for column in columns)
    for group in dict.fromkeys(name for column in columns for name in column.used):
        yield f"{'' if is_whole(group) else '  '}{group}", *(_used(column, group) for column in columns)


def _requests(columns: Sequence[Medians]) -> Iterator[Row]:
    yield "requests to the API server", *(f"{sum(column.requests.values()):.0f}" for column in columns)
    by_client = [column.requests_by_client() for column in columns]
    most = {
        name: max(observations.get(name, 0) for observations in by_client) for counts in by_client for name in counts
    }
    for client in sorted((name for name in most if most[name] >= FEWEST_REQUESTS), key=lambda name: -most[name]):
        yield client, *(_number(observations.get(client, 0)) for observations in by_client)
        for request in _often(columns, client):
            name = f"  {request.verb} {request.resource}"
            yield name, *(_number(column.requests.get(request, 0)) for column in columns)


def _workflows(columns: Sequence[Medians]) -> Iterator[Row]:
    yield "Temporal, for each node", *("" for _ in columns)
    for name, cell in PER_NODE.items():
        yield name, *(ABSENT if column.per_node is None else f"{cell(column.per_node):g}" for column in columns)


def _scale_in(columns: Sequence[Medians]) -> Iterator[Row]:
    if all(column.scale_in is None for column in columns):
        return
    yield "scale-in", *("" for _ in columns)
    for name, cell in SCALE_IN.items():
        yield name, *(ABSENT if column.scale_in is None else cell(column.scale_in) for column in columns)


def _reached(seconds: Sequence[float], runs: int) -> str:
    middle = median_if_all(seconds, runs)
    return f"in {len(seconds)} of {runs} runs" if middle is None else f"{middle:.0f}"


SCALE_IN: Mapping[str, Callable[[ScaleIn], str]] = {
    f"seconds until at most {GOAL_RATIO:g} of a repack": lambda observations: _reached(
        observations.to_goal, observations.runs
    ),
    "seconds until nothing changes": lambda observations: _reached(observations.still_after, observations.runs),
    "nodes left": lambda observations: f"{observations.nodes:g}",
    "price over a repack at the end": lambda observations: f"{observations.price_ratio:.3f}",
    "pods moved": lambda observations: f"{observations.drained:g}",
    "CPU-seconds in all": lambda observations: f"{all_cpu_seconds(observations.used):.1f}",
}


def _used(medians: Medians, group: str) -> str:
    item = medians.used.get(group)
    return ABSENT if item is None else f"{item.cpu_seconds:.1f} / {item.peak_megabytes:.0f}"


def _number(count: float) -> str:
    return f"{count:.0f}" if count else ABSENT


def _often(columns: Sequence[Medians], client: str) -> list[Request]:
    """Return the client's frequent requests, the most frequent first."""
    most: dict[Request, float] = {}
    for column in columns:
        for request, count in column.requests.items():
            if request.client == client:
                most[request] = max(most.get(request, 0), count)
    return sorted((item for item in most if most[item] >= FEWEST_REQUESTS), key=lambda item: (-most[item], item))
