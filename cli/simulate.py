"""``tenon simulate``: plans for the objects in files, without a cluster, AWS or Temporal."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cli.application import create_app, examples
from cli.options import Catalog
from cli.simulating.again import read_problem, solve_again
from cli.simulating.files import Filenames
from cli.simulating.progress import show_progress
from cli.simulating.simulation import UNUSABLE, SimulationInput, simulated, stop_at_faults
from tenon.simulation.document import to_json

app = create_app()


class Form(StrEnum):
    """Output format of the plan."""

    table = "table"
    json = "json"
    html = "html"


@app.command(
    epilog=examples(
        "tenon simulate -f nodepool.yaml -f deployment.yaml",
        "tenon simulate --live --disruption",
        "tenon simulate -f manifests/ -o html > plan.html",
    )
)
def simulate(
    ctx: typer.Context,
    filename: Filenames = None,
    live: Annotated[
        bool, typer.Option("--live", help="Add the objects of the kubeconfig's cluster (read only).")
    ] = False,
    catalog: Catalog = None,
    output: Annotated[Form, typer.Option("-o", "--output", help="Output format.")] = Form.table,
    disruption: Annotated[
        bool, typer.Option("--disruption", help="Show which nodes would be removed, and why the others stay.")
    ] = False,
    node: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Show only why this Node or NodeClaim would be removed or stays. Implies --disruption."
        ),
    ] = None,
    now: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="The time of the decisions (RFC 3339). Default: now with --live, else the newest time in the input.",
        ),
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the worker; repeatable.")
    ] = None,
    spot_score: Annotated[
        list[str] | None,
        typer.Option(metavar="ZONE=SCORE", help="A Spot placement score to plan with, from 1 to 10; repeatable."),
    ] = None,
    problem: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Solve a problem again that the worker saved when its engine failed; without other options.",
        ),
    ] = None,
) -> None:
    """Show which nodes Tenon would launch for the pods in these manifests, and what they cost."""
    if problem is not None:
        _refuse_others(ctx)
        _again(problem)
        return
    scope = SimulationInput(
        filename or [],
        live,
        catalog,
        disruption or node is not None,
        now,
        setting or [],
        node,
        spot_scores=spot_score or [],
    )
    with stop_at_faults(), show_progress("Reading and planning ..."):
        shown = simulated(scope)
    if output is Form.json:
        sys.stdout.write(to_json(shown.document))
    elif output is Form.html:
        from tenon.simulation.html_report import to_html

        sys.stdout.write(to_html(shown))
    else:
        from cli.simulating.table import show, show_node

        if node is None:
            show(shown)
        else:
            show_node(shown.document, node)


def _refuse_others(ctx: typer.Context) -> None:
    """Refuse options next to a problem, which has all that a plan is made of."""
    names = []
    for option in ctx.command.params:
        source = ctx.get_parameter_source(option.name or "")
        if option.name != "problem" and source is not None and source.name == "COMMANDLINE":
            names.append(max(option.opts, key=len))
    if names:
        raise typer.BadParameter(f"it takes no other option: leave out {', '.join(names)}", param_hint="--problem")


def _again(problem: Path) -> None:
    try:
        read = read_problem(problem)
    except (OSError, ValueError) as error:
        print(f"{problem} cannot be read: {error}", file=sys.stderr)
        raise typer.Exit(UNUSABLE) from None
    print(solve_again(read))
