"""``tenon explain``: why the worker does not disrupt a node now, or why it does."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer

from activities.clock import utc_now
from cli.application import create_app
from cli.simulate import Given, simulated, stop_at_faults
from cli.simulating.progress import show_progress
from cli.simulating.table import show_node
from tenon.kube.timestamps import format_instant
from tenon.simulation.document import to_json

app = create_app(
    no_args_is_help=True,
    help="Explain decisions about an object, from the cluster or from files. Changes nothing.",
)


@app.callback()
def explain() -> None:
    """Explain decisions about an object, from the cluster or from files. Changes nothing."""


@app.command()
def node(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A Node, or its NodeClaim.")],
    filename: Annotated[
        list[str] | None,
        typer.Option(
            "-f",
            "--filename",
            metavar="FILE",
            help="A manifest file or a folder of manifests to read instead of the cluster.",
        ),
    ] = None,
    catalog: Annotated[
        str | None, typer.Option(metavar="FILE", help="Instance types to use instead of the built-in ones.")
    ] = None,
    output: Annotated[Literal["table", "json"], typer.Option("-o", "--output", help="table or json.")] = "table",
    now: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="The time of the decisions (RFC 3339). Default: now, and for files the newest time in them.",
        ),
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the worker; repeatable.")
    ] = None,
) -> None:
    """Show why a node stays or leaves: pods, budgets, and what a replacement would cost."""
    live = not filename
    if live and now is None:
        now = format_instant(utc_now())
    scope = Given(filename or [], live, catalog, disruption=True, now=now, settings=setting or [], node=name)
    with stop_at_faults(), show_progress("Reading and simulating ..."):
        document = simulated(scope).document
    if output == "json":
        sys.stdout.write(to_json(document))
    else:
        show_node(document, name)
