"""``tenon explain``: why the worker does not disrupt a node now, or why it does."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

import typer

from activities.clock import utc_now
from cli.simulate import Given, simulated, stop_at_faults
from cli.simulating.progress import show_progress
from cli.simulating.table import show_node
from tenon.kube.timestamps import format_instant
from tenon.simulation.document import to_json

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    help="Explain decisions about an object, from the cluster or from files. Changes nothing.",
)


@app.callback()
def explain() -> None:
    """Explain decisions about an object, from the cluster or from files. Changes nothing."""


@app.command()
def node(
    name: Annotated[str, typer.Argument(help="A Node, or its NodeClaim.")],
    filename: Annotated[
        list[str] | None,
        typer.Option("-f", "--filename", help="Read manifests from this file or folder instead of the cluster."),
    ] = None,
    catalog: Annotated[str | None, typer.Option(help="Instance types to use instead of the built-in ones.")] = None,
    output: Annotated[Literal["table", "json"], typer.Option("-o", "--output", help="table or json.")] = "table",
    now: Annotated[
        str | None,
        typer.Option(help="The time of the decisions (RFC 3339). Default: now, and for files the newest time in them."),
    ] = None,
    setting: Annotated[list[str] | None, typer.Option("--set", help="A setting of the worker, as NAME=VALUE.")] = None,
) -> None:
    """Say what keeps a node: pods, budgets, and what a replacement would cost. Reads the kubeconfig's cluster."""
    live = not filename
    if live and now is None:
        now = format_instant(utc_now())
    given = Given(filename or [], live, catalog, disruption=True, now=now, settings=setting or [], node=name)
    with stop_at_faults(), show_progress("Reading and simulating ..."):
        document = simulated(given).document
    if output == "json":
        sys.stdout.write(to_json(document))
    else:
        show_node(document, name)
