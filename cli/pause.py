"""``tenon pause``: no node of the named NodePools, or of any, is disrupted for a while."""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta
from typing import Annotated, Literal

import typer
from rich.table import Table
from rich.text import Text

from activities.clock import utc_now
from cli.actor import user_of_command
from cli.application import create_app, examples
from cli.connection import connected
from cli.console import output_console
from cli.durations import duration_of
from cli.name_completion import pool_names
from cli.nodes.requests import asked_reason
from cli.nodes.workflows import run
from cli.pauses import has_ended, pause, pauses
from tenon.apis.disruptionfreeze import DisruptionFreeze
from tenon.kube.timestamps import format_instant, time_text

app = create_app()


@app.command(
    name="pause",
    epilog=examples(
        "tenon pause --for 2h --reason 'release in progress'",
        "tenon pause gpu batch --for 30m --reason INC-4711",
        "tenon pause --list",
    ),
)
def pause_command(
    pools: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="NodePools; all if none is named.", autocompletion=pool_names),
    ] = None,
    for_: Annotated[
        str,
        typer.Option("--for", metavar="DURATION", help="How long, such as 2h or 3d; without it, until `tenon resume`."),
    ] = "",
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Why, for all who ask why nodes stay.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="Show the pauses instead.")] = False,
    output: Annotated[
        Literal["table", "json"], typer.Option("--output", "-o", help="With --list: table or json.")
    ] = "table",
) -> None:
    """Pause disruption: no node is consolidated, replaced for drift, or removed because it is empty.

    Pods still get new nodes. Interruptions, unhealthy nodes and operators' commands are not held up, and expired nodes
    wait for three days at most. The pause is a DisruptionFreeze, which kubectl shows.
    """
    if list_:
        if pools or for_ or reason is not None:
            print("--list shows all pauses: leave out NAME, --for and --reason.", file=sys.stderr)
            raise typer.Exit(2)
        _print(run(_pauses()), as_json=output == "json")
        return
    if output == "json":
        print("-o json goes with --list: nothing was paused.", file=sys.stderr)
        raise typer.Exit(2)
    until = _end(for_)
    names = run(_pause(pools or [], until, asked_reason(reason, "the DisruptionFreeze")))
    scope = f"NodePool {', '.join(pools)}" if pools else "Every NodePool"
    ends = f"until {time_text(until)}" if until is not None else "until `tenon resume`"
    print(f"{scope} is paused {ends} (DisruptionFreeze {', '.join(names)}).")


def _end(text: str) -> datetime | None:
    if not text:
        return None
    try:
        length = duration_of(text)
    except ValueError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None
    if length <= timedelta():
        print("--for 0s is no pause: `tenon resume` ends one.", file=sys.stderr)
        raise typer.Exit(2)
    return utc_now() + length


async def _pause(pools: list[str], until: datetime | None, reason: str) -> list[str]:
    kube = await connected()
    try:
        return await pause(kube, pools, until, await user_of_command("tenon pause"), reason)
    finally:
        await kube.close()


async def _pauses() -> list[DisruptionFreeze]:
    kube = await connected()
    try:
        now = utc_now()
        return [freeze for freeze in await pauses(kube) if not has_ended(freeze, now)]
    finally:
        await kube.close()


def _print(freezes: list[DisruptionFreeze], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps([_document(freeze) for freeze in freezes], indent=2))
        return
    if not freezes:
        print("Nothing is paused.", file=sys.stderr)
        return
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for title in ("PAUSE", "NODEPOOLS", "UNTIL", "BY", "REASON"):
        table.add_column(title, overflow="fold", no_wrap=title == "UNTIL")
    for freeze in freezes:
        spec = freeze.spec
        until = format_instant(spec.end_time) if spec.end_time is not None else "resumed"
        pools = ", ".join(spec.node_pools) or "all"
        cells = (freeze.metadata.name, pools, until, spec.requested_by or "-", spec.reason or "-")
        table.add_row(*map(Text, cells))
    output_console().print(table)


def _document(freeze: DisruptionFreeze) -> dict[str, object]:
    spec = freeze.spec
    return {
        "name": freeze.metadata.name,
        "nodePools": spec.node_pools,
        "until": format_instant(spec.end_time) if spec.end_time is not None else None,
        "by": spec.requested_by,
        "reason": spec.reason,
    }
