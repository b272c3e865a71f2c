"""``tenon pods``: the pods that wait for a node, grouped by cause, and what is tried next."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from activities.clock import utc_now
from cli.application import create_app, examples
from cli.console import indented, output_console
from cli.options import Catalog, Output
from cli.simulating.progress import show_progress
from cli.simulating.refusals import read_holds
from cli.simulating.simulation import SimulationInput, simulation_of, stop_at_faults
from cli.waiting_groups import groups_of, require_causes
from tenon.kube.timestamps import format_instant
from tenon.manifests.faults import one_line
from tenon.scheduling.explanation.waiting import WaitsFor, beginning, explain_command
from tenon.sentences import counted
from tenon.simulation.waiting_pods import PodGroup, group_document

app = create_app()

SHOWN_PODS = 3
"""How many pods of a group are named in a terminal."""
STYLES = {
    WaitsFor.NOTHING_FITS: "red",
    WaitsFor.PURCHASE: "yellow",
    WaitsFor.NODE: "green",
    WaitsFor.NEXT_BATCH: "yellow",
}


@app.command(epilog=examples("tenon pods --pending", "tenon pods --pending -n shop -o json"))
def pods(
    pending: Annotated[  # noqa: ARG001 - says in a script what is shown
        bool, typer.Option("--pending", help="Pods that wait for a node, which is all that this command shows.")
    ] = True,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAME", help="Only pods of this namespace.")
    ] = "",
    output: Output = "table",
    catalog: Catalog = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the worker; repeatable.")
    ] = None,
) -> None:
    """Show the pods that wait for a node, by cause: what each NodePool lacks, what is bought, and the next attempt."""
    now = format_instant(utc_now())
    with stop_at_faults(), show_progress("Reading and planning ..."):
        simulation = simulation_of(SimulationInput([], True, catalog, now=now, settings=setting or []))
        groups = [_in_namespace(group, namespace) for group in groups_of(simulation)]
        groups = [group for group in groups if group.pods]
        require_causes(simulation, groups)
    notes = [*map(one_line, simulation.notes), *read_holds()] if groups else []
    if output == "json":
        print(json.dumps({"groups": [group_document(group) for group in groups], "notes": notes}, indent=2))
    elif not groups:
        print("No pod waits for a node.", file=sys.stderr)
    else:
        _print(output_console(), groups, notes)


def _in_namespace(group: PodGroup, namespace: str) -> PodGroup:
    own = [pod for pod in group.pods if not namespace or pod.startswith(f"{namespace}/")]
    return PodGroup(group.waits_for, group.why, own, group.since)


def _print(console: Console, groups: Sequence[PodGroup], notes: Sequence[str]) -> None:
    most = SHOWN_PODS if console.is_terminal else None
    now = utc_now()
    for group in groups:
        title = beginning(group.waits_for, counted(len(group.pods), "pod"))
        seconds = int((now - group.since).total_seconds()) if group.since is not None else None
        waited = (
            f", {'waiting' if len(group.pods) == 1 else 'the oldest'} for {seconds // 60}m{seconds % 60:02}s"
            if seconds is not None
            else ""
        )
        console.print(f"[bold {STYLES[group.waits_for]}]{title}[/]{waited}", highlight=False, soft_wrap=True)
        shown = group.pods[:most]
        more = f" and {len(group.pods) - len(shown)} more" if len(group.pods) > len(shown) else ""
        console.print(indented(f"{', '.join(shown)}{more}"))
        console.print(indented(group.why))
    console.print(f"[dim]One of them, with its notes: {explain_command(groups[0].pods[0])}[/]", highlight=False)
    for note in notes:
        console.print(f"[dim]{escape(note)}[/]", highlight=False, soft_wrap=not console.is_terminal)
