"""``tenon top``: a live view of nodes, with their pods, prices, stages, and what keeps or removes them.

It reads the Kubernetes API alone. Temporal adds which nodes are blocked and what commands wait for, and carries out
drain and keep.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import Coroutine
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from activities.clock import utc_now
from activities.ec2.price_tables import PriceTableError
from activities.kubernetes.errors import ApiError, ConfigError
from cli.application import create_app, examples
from cli.console import TextConsole, output_console, printable
from cli.fleet_view.keyboard import reading_keys
from cli.fleet_view.node_prices import aws_prices, region_of, table_prices
from cli.fleet_view.painter import Painter
from cli.fleet_view.reading import (
    NO_CLUSTER,
    FleetError,
    Notes,
    ask_workflows,
    control_of,
    in_thread,
    read_once,
    watched_fleet,
)
from cli.fleet_view.screen import screen, table_lines, visible_rows
from cli.fleet_view.view_state import Mode, Verb, ViewState, Wish, press
from cli.fleet_view.watched_fleet import WatchedFleet
from cli.fleet_view.workflow_control import ControlError, WorkflowControl
from cli.name_completion import pool_names
from cli.unknown_pools import why_unknown
from tenon.fleet.document import Fleet, row_document, to_csv, to_document
from tenon.fleet.order import FilterError, GroupBy, SortKey, parse_filter
from tenon.fleet.rows import NodeRow

app = create_app()

WORKFLOW_SECONDS = 10.0
"""Seconds between two questions to Temporal which nodes are blocked and which commands are under way."""


@app.command(
    epilog=examples(
        "tenon top --sort price --group pool --filter 'cpu<30'",
        "tenon top --once -o json | jq .totals",
    )
)
def top(
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="NAME", envvar="CLUSTER_NAME", help="Name of the cluster.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print the nodes once and exit, as without a terminal.")] = False,
    output: Annotated[
        Literal["table", "json", "csv"],
        typer.Option("--output", "-o", help="table, json or csv; the last two imply --once."),
    ] = "table",
    sort: Annotated[SortKey, typer.Option("--sort", help="What rows are sorted by; figures from large to small.")] = (
        SortKey.NAME
    ),
    group: Annotated[GroupBy, typer.Option("--group", help="What rows are grouped by.")] = GroupBy.NONE,
    pool: Annotated[
        str | None,
        typer.Option("--pool", metavar="NAME", help="Only nodes of this NodePool.", autocompletion=pool_names),
    ] = None,
    zone: Annotated[str | None, typer.Option("--zone", metavar="NAME", help="Only nodes in this zone.")] = None,
    filter_: Annotated[
        str,
        typer.Option(
            "--filter",
            metavar="WORDS",
            help="Only nodes that match all words: a part of any text, FIELD=VALUE, or cpu, memory, price or pods "
            "with < or >, such as 'spot cpu<30'.",
        ),
    ] = "",
    interval: Annotated[float, typer.Option(metavar="SECONDS", min=0.2, help="Seconds between two refreshes.")] = 2.0,
    aws: Annotated[
        bool, typer.Option("--aws/--no-aws", help="Ask AWS for prices; otherwise use those of a table.")
    ] = True,
) -> None:
    """Show nodes live: use, price, stage, what keeps them; with keys to show, drain and keep."""
    words = [filter_, *([f"pool={pool}"] if pool else []), *([f"zone={zone}"] if zone else [])]
    state = ViewState(sort=sort, group=group, filter=" ".join(filter(None, words)))
    is_live = not once and output == "table" and sys.stdout.isatty() and sys.stdin.isatty()
    try:
        parse_filter(state.filter)
        control = control_of(cluster)
        if is_live:
            asyncio.run(_live(state, control, interval, ask_aws=aws))
        else:
            fleet = asyncio.run(read_once(control, ask_aws=aws))
            _print(fleet, state, output)
            if (
                pool
                and pool.lower() not in {row.pool.lower() for row in fleet.rows}
                and (why := asyncio.run(why_unknown(pool)))
            ):
                print(why, file=sys.stderr)
            if zone and zone.lower() not in {row.zone.lower() for row in fleet.rows}:
                print(f"No node is in the zone {zone}.", file=sys.stderr)
    except (FleetError, FilterError, ApiError, ConfigError, PriceTableError) as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None


def _print(fleet: Fleet, state: ViewState, output: str) -> None:
    rows = visible_rows(fleet, state)
    if output == "json":
        print(json.dumps(to_document(fleet, rows), indent=2))
    elif output == "csv":
        print(printable(to_csv(rows, fleet.now)), end="")
    else:
        console = output_console()
        width = console.width if console.is_terminal else None
        for line in table_lines(fleet, rows, state.group, width):
            console.print(line, soft_wrap=True, highlight=False)


class _View:
    """The screen of a terminal, and what its keys do."""

    def __init__(self, watched: WatchedFleet, control: WorkflowControl | None, notes: Notes, state: ViewState) -> None:
        self._watched = watched
        self._control = control
        self._notes = notes
        self.state = state
        self._rows: list[NodeRow] = []
        self._fleet = Fleet([], [], [], utc_now())
        self.is_over = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._console = TextConsole()
        self._painter: Painter | None = None

    def __enter__(self) -> _View:
        """Take over the terminal."""
        self._painter = Painter(self._console)
        return self

    def __exit__(self, *_: object) -> None:
        """Give the terminal back as it was."""
        for task in self._tasks:
            task.cancel()
        if self._painter is not None:
            self._painter.close()
            self._painter = None

    def refresh(self) -> None:
        """Read what has changed, and paint."""
        self._fleet = self._watched.fleet(self._notes.all())
        self.paint()

    def paint(self) -> None:
        """Paint what is known."""
        if self._painter is None:
            return  # the terminal has been given back
        self._rows = visible_rows(self._fleet, self.state)
        width, height = self._painter.size
        self._painter.paint(screen(self._fleet, self.state, self._rows, width, height))

    def press(self, key: str) -> None:
        """Do what a key means."""
        self.state, wish = press(self.state, key, self._rows)
        if wish is not None and wish.verb is Verb.QUIT:
            self.is_over.set()
            return
        if wish is not None:
            task = asyncio.create_task(self._do(wish))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self.paint()

    async def _do(self, wish: Wish) -> None:
        if wish.verb is Verb.SHOW:
            lines = await self._details(wish)
            self.state = replace(self.state, mode=Mode.DETAIL, detail=lines, scroll=0)
        else:
            self.state = replace(self.state, message=await self._carry_out(wish))
        self.paint()

    async def _carry_out(self, wish: Wish) -> str:
        if self._control is None:
            return f"{NO_CLUSTER}."
        try:
            if wish.verb is Verb.DRAIN:
                return await self._control.drain(wish.claim, wish.reason)
            return await self._control.keep(wish.claim, utc_now(), wish.reason)
        except ControlError as error:
            return f"{error}."

    async def _details(self, wish: Wish) -> list[str]:
        """What Kubernetes says of a node, and what its workflow says if it answers."""
        own = [row for row in self._rows if row.name == wish.name]
        document = row_document(own[0], utc_now()) if own else {}
        lines = [f"{name:18} {value}" for name, value in document.items() if value not in ("", None)]
        if self._control is None or not wish.claim:
            return lines
        try:
            text = await self._control.details(wish.claim)
        except ControlError as error:
            return [*lines, "", f"{error}."]
        return [*lines, "", *_rendered(text, self._console.width)]


def _rendered(markdown: str, width: int) -> list[str]:
    from cli.markdown import print_markdown  # loads a large library, which only the view of one node needs

    console = TextConsole(width=width, force_terminal=False, color_system=None)
    with console.capture() as printed:
        print_markdown(console, markdown)
    return printed.get().splitlines()


async def _live(state: ViewState, control: WorkflowControl | None, interval: float, *, ask_aws: bool) -> None:
    """Show the cluster until q is pressed."""
    notes = Notes()
    console = Console(stderr=True)
    async with AsyncExitStack() as stack:
        with console.status("Reading the cluster ..."):
            watched = await stack.enter_async_context(watched_fleet(notes))
        region = region_of(watched.region)
        local = table_prices(region)
        watched.prices, notes.prices = local.prices, local.notes
        with _View(watched, control, notes, state) as view, reading_keys(sys.stdin.fileno(), view.press):
            asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, view.paint)
            jobs: list[Coroutine[Any, Any, None]] = [
                _refresh(view, watched, interval),
                _ask_workflows(watched, control, notes),
            ]
            if ask_aws:
                jobs.append(_ask_prices(watched, notes, region))
            tasks = [asyncio.create_task(job) for job in jobs]
            over = asyncio.create_task(view.is_over.wait())
            done, _ = await asyncio.wait([tasks[0], over], return_when=asyncio.FIRST_COMPLETED)
            for task in (*tasks, over):
                task.cancel()
            for task in done:
                task.result()


async def _refresh(view: _View, watched: WatchedFleet, interval: float) -> None:
    """Paint when something changed, at most once in an interval, and at least every ten, because ages grow."""
    while True:
        watched.changes.clear()
        view.refresh()
        began = time.monotonic()
        with suppress(TimeoutError):
            async with asyncio.timeout(10 * interval):
                await watched.changes.wait()
        await asyncio.sleep(max(0.0, interval - (time.monotonic() - began)))


async def _ask_prices(watched: WatchedFleet, notes: Notes, region: str) -> None:
    answer = await in_thread(lambda: aws_prices(region))
    watched.prices, notes.prices = answer.prices, answer.notes
    watched.changes.set()


async def _ask_workflows(watched: WatchedFleet, control: WorkflowControl | None, notes: Notes) -> None:
    while True:
        before = (watched.blocked, watched.commands, notes.temporal)
        await ask_workflows(watched, control, notes)
        if before != (watched.blocked, watched.commands, notes.temporal):
            watched.changes.set()
        await asyncio.sleep(WORKFLOW_SECONDS)
