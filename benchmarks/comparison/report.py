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


def as_document(pods: int, machine: Machine, found: Mapping[str, Medians]) -> dict[str, Any]:
    """Format the comparison as JSON, with a key for each contender."""
    return {
        "pods": pods,
        "machine": asdict(machine),
        **{contender: medians.as_document(seen) for contender, seen in found.items()},
    }


def as_table(pods: int, machine: Machine, found: Mapping[str, Medians]) -> Table:
    """Format the comparison as a table with a column for each contender."""
    columns = list(found.values())
    runs = max(len(seen.runs) for seen in columns)
    table = Table(title=f"{pods} pods at once, medians of {runs} runs\n{machine}")
    table.add_column("")
    for contender in found:
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
        *(f"{seen.seconds:.1f}" if seen.running >= pods else "never" for seen in columns),
    )
    yield "seconds of each run", *(", ".join(f"{one:.1f}" for one in seen.runs) for seen in columns)
    yield "pods that run", *(f"{seen.running}" for seen in columns)
    yield "nodes", *(f"{seen.nodes:g}" for seen in columns)
    yield (
        "price over a repack",
        *(ABSENT if seen.price_ratio is None else f"{seen.price_ratio:.3f}" for seen in columns),
    )
    yield "pods that a kubelet refused", *(f"{seen.refused:g}" for seen in columns)


def _processes(columns: Sequence[Medians]) -> Iterator[Row]:
    yield "CPU-seconds / peak MB", *("" for _ in columns)
    yield "all", *(f"{seen.cpu_seconds:.1f}" for seen in columns)
    for group in dict.fromkeys(name for seen in columns for name in seen.used):
        yield f"{'' if is_whole(group) else '  '}{group}", *(_used(seen, group) for seen in columns)


def _requests(columns: Sequence[Medians]) -> Iterator[Row]:
    yield "requests to the API server", *(f"{sum(seen.requests.values()):.0f}" for seen in columns)
    by_client = [seen.requests_by_client() for seen in columns]
    most = {name: max(seen.get(name, 0) for seen in by_client) for seen in by_client for name in seen}
    for client in sorted((name for name in most if most[name] >= FEWEST_REQUESTS), key=lambda name: -most[name]):
        yield client, *(_number(seen.get(client, 0)) for seen in by_client)
        for request in _often(columns, client):
            name = f"  {request.verb} {request.resource}"
            yield name, *(_number(seen.requests.get(request, 0)) for seen in columns)


def _workflows(columns: Sequence[Medians]) -> Iterator[Row]:
    yield "Temporal, for each node", *("" for _ in columns)
    for name, cell in PER_NODE.items():
        yield name, *(ABSENT if seen.per_node is None else f"{cell(seen.per_node):g}" for seen in columns)


def _scale_in(columns: Sequence[Medians]) -> Iterator[Row]:
    if all(seen.scale_in is None for seen in columns):
        return
    yield "scale-in", *("" for _ in columns)
    for name, cell in SCALE_IN.items():
        yield name, *(ABSENT if seen.scale_in is None else cell(seen.scale_in) for seen in columns)


def _reached(seconds: Sequence[float], runs: int) -> str:
    middle = median_if_all(seconds, runs)
    return f"in {len(seconds)} of {runs} runs" if middle is None else f"{middle:.0f}"


SCALE_IN: Mapping[str, Callable[[ScaleIn], str]] = {
    f"seconds until at most {GOAL_RATIO:g} of a repack": lambda seen: _reached(seen.to_goal, seen.runs),
    "seconds until nothing changes": lambda seen: _reached(seen.still_after, seen.runs),
    "nodes left": lambda seen: f"{seen.nodes:g}",
    "price over a repack at the end": lambda seen: f"{seen.price_ratio:.3f}",
    "pods moved": lambda seen: f"{seen.drained:g}",
    "CPU-seconds in all": lambda seen: f"{all_cpu_seconds(seen.used):.1f}",
}


def _used(seen: Medians, group: str) -> str:
    one = seen.used.get(group)
    return ABSENT if one is None else f"{one.cpu_seconds:.1f} / {one.peak_megabytes:.0f}"


def _number(count: float) -> str:
    return f"{count:.0f}" if count else ABSENT


def _often(columns: Sequence[Medians], client: str) -> list[Request]:
    """Return the client's frequent requests, the most frequent first."""
    most: dict[Request, float] = {}
    for seen in columns:
        for request, count in seen.requests.items():
            if request.client == client:
                most[request] = max(most.get(request, 0), count)
    return sorted((one for one in most if most[one] >= FEWEST_REQUESTS), key=lambda one: (-most[one], one))
