"""``tenon schedule``: what NodeSchedules ask for now, and their week as a picture with its cost.

Both read files, or else the cluster, and change nothing. The preview of files may use the cluster's nodes and its other
NodeSchedules.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from activities.clock import utc_now
from activities.ec2.price_tables import PriceTableError
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ConfigError, NotFoundError
from activities.kubernetes.resources import NODESCHEDULES
from cli.application import create_app, examples
from cli.connection import connected
from cli.console import output_console
from cli.cost_view.current_nodes import priced_nodes, prices_of, read_cluster
from cli.options import Output
from cli.schedule_view.week import Week, print_weeks, week_document, weeks_of
from cli.simulating.files import Filenames, read_files
from tenon.apis.nodeschedule import NodeSchedule
from tenon.apis.validation import parse
from tenon.errors import TenonError
from tenon.kube.timestamps import YEARS, format_instant, has_days_around, parse_instant
from tenon.money import dollars
from tenon.resources import format_resources
from tenon.schedule.desired import PoolDemand, desired
from tenon.schedule.node_pools import in_words
from tenon.schedule.week import PoolNow

app = create_app(help="Show what NodeSchedules ask for.")

At = Annotated[
    str | None, typer.Option("--at", metavar="TIME", help="The time to show, such as 2026-03-29; without it, now.")
]


class ScheduleError(TenonError):
    """The schedules cannot be shown. The message is one sentence."""


@dataclass(slots=True)
class Reading:
    """The valid schedules, and what else a reader must know."""

    schedules: list[NodeSchedule] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    running: dict[str, PoolNow] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, body: dict[str, Any]) -> None:
        """Add an object, or its problems."""
        schedule, problems = parse(NodeSchedule, body)
        self.problems += [f"NodeSchedule {_name(body)}: {problem}" for problem in problems]
        if schedule is not None and not problems:
            self.schedules.append(schedule)


@app.command(
    "list",
    epilog=examples(
        "tenon schedule list",
        "tenon schedule list -f schedules.yaml --at 2026-03-29T06:00:00Z -o json",
    ),
)
def list_(filename: Filenames = None, at: At = None, output: Output = "table") -> None:
    """List what holds for each NodePool, and until when."""
    now = _instant(at)
    reading = _read(filename, live=not filename)
    state = desired(reading.schedules, now)
    if output == "json":
        pools = {
            pool: _demand_document(demand)
            | {"until": format_instant(until) if (until := state.until.get(pool)) else ""}
            for pool, demand in state.pools.items()
        }
        buffers = [
            {"namespace": namespace, "name": name, "replicas": replicas}
            for (namespace, name), replicas in sorted(state.buffers.items())
        ]
        print(json.dumps({"time": format_instant(now), "nodePools": pools, "capacityBuffers": buffers}, indent=2))
    elif not (state.pools or state.buffers):
        print("No NodeSchedule asks for anything.", file=sys.stderr)
    else:
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
        for title in ("NodePool", "Holds", "Until", "Because of"):
            table.add_column(title, overflow="fold")
        for pool, demand in state.pools.items():
            until = state.until.get(pool)
            table.add_row(
                Text(pool),
                Text(in_words(demand)),
                format_instant(until) if until is not None else "-",
                Text(", ".join(demand.entries) or "-"),
            )
        console = output_console()
        console.print(table)
        for (namespace, name), replicas in sorted(state.buffers.items()):
            console.print(Text(f"CapacityBuffer {namespace}/{name}: {replicas} replicas"))
    _end(reading)


@app.command(
    epilog=examples(
        "tenon schedule preview --week",
        "tenon schedule preview --week -f schedules.yaml --at 2026-03-23",
        "tenon schedule preview --week -f schedules.yaml --live",
    )
)
def preview(
    filename: Filenames = None,
    week: Annotated[bool, typer.Option("--week", help="A week, which is also the default.")] = True,  # noqa: ARG001 - the one length that there is
    at: At = None,
    live: Annotated[
        bool,
        typer.Option("--live", help="With -f: add the cluster's nodes, for the cost, and its other NodeSchedules."),
    ] = False,
    output: Output = "table",
    aws: Annotated[
        bool, typer.Option("--aws/--no-aws", help="Ask AWS for prices; otherwise use those of a table.")
    ] = True,
) -> None:
    """Draw the week of each NodePool, and what it costs with the nodes that run now."""
    now = _instant(at)
    reading = _read(filename, live=live or not filename, with_prices=True, ask_aws=aws)
    weeks = weeks_of(reading.schedules, now, reading.running)
    if output == "json":
        print(json.dumps({"nodePools": [week_document(item) for item in weeks]}, indent=2))
        for note in reading.notes:
            print(f"{note}.", file=sys.stderr)
    else:
        _print(weeks, reading.notes)
    _end(reading)


def _print(weeks: Sequence[Week], notes: Sequence[str]) -> None:
    console = output_console()
    print_weeks(weeks, console)
    for note in notes:
        console.print(Text(f"{note}."))


def _end(reading: Reading) -> None:
    """Report schedules that are not valid, and exit with status 2 if there are any."""
    for problem in reading.problems:
        print(problem, file=sys.stderr)
    if reading.problems:
        raise typer.Exit(2)


def _demand_document(demand: PoolDemand) -> dict[str, Any]:
    return {
        "off": demand.off,
        "launches": demand.launches,
        "floor": {"nodes": demand.floor_nodes, "spare": format_resources(demand.floor_spare)},
        "replicas": demand.replicas,
        "replicasAtLeast": demand.replicas_at_least,
        "limits": format_resources(demand.limits),
        "entries": list(demand.entries),
    }


def _instant(text: str | None) -> datetime:
    if text is None:
        return utc_now()
    instant = parse_instant(text)
    if instant is None:
        print(f"--at {text} is not a time: write one such as 2026-01-31 or 2026-01-31T12:00:00Z.", file=sys.stderr)
        raise typer.Exit(2)
    if not has_days_around(instant):
        print(f"--at {text} is not {YEARS}: write a time such as 2026-01-31.", file=sys.stderr)
        raise typer.Exit(2)
    return instant


def _read(filenames: Sequence[str] | None, *, live: bool, with_prices: bool = False, ask_aws: bool = False) -> Reading:
    try:
        bodies = _bodies_of_files(filenames or ())
        if live:
            return asyncio.run(_of_cluster(bodies, with_prices=with_prices, ask_aws=ask_aws))
    except (ApiError, ConfigError, PriceTableError, ScheduleError) as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None
    reading = Reading(notes=["Files say nothing about nodes that run, so no cost is shown: --live adds the cluster's"])
    for body in bodies:
        reading.add(body)
    return reading


def _bodies_of_files(filenames: Sequence[str]) -> list[dict[str, Any]]:
    objects = read_files(filenames)
    if objects.faults:
        raise ScheduleError("\n".join(str(fault) for fault in objects.faults))
    return [schedule.body for schedule in objects.of("NodeSchedule")]


async def _of_cluster(from_files: Sequence[dict[str, Any]], *, with_prices: bool, ask_aws: bool) -> Reading:
    """Read the cluster. Those of files take the place of those that have the same name."""
    reading = Reading()
    kube = await connected()
    try:
        bodies = {_name(body): body for body in [*await _bodies_of_cluster(kube, required=not from_files), *from_files]}
        for body in bodies.values():
            reading.add(body)
        if not with_prices:
            return reading
        cluster = await read_cluster(kube, utc_now())
    finally:
        await kube.close()
    prices = await asyncio.to_thread(prices_of, cluster, ask_aws=ask_aws)
    reading.notes += prices.notes
    for node in priced_nodes(cluster, prices)[0]:
        if node.price is not None:
            before = reading.running.get(node.pool, PoolNow(0, 0.0))
            reading.running[node.pool] = PoolNow(before.nodes + 1, before.price + dollars(node.price))
    return reading


async def _bodies_of_cluster(kube: Kube, *, required: bool) -> list[dict[str, Any]]:
    try:
        return [dict(body) for body in await kube.list(NODESCHEDULES)]
    except NotFoundError:
        if required:
            raise ScheduleError(
                "The cluster has no NodeSchedules: apply Tenon's CRDs, or name files with -f."
            ) from None
        return []


def _name(body: dict[str, Any]) -> str:
    return str((body.get("metadata") or {}).get("name") or "without a name")
