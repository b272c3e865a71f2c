"""``tenon rollout``: how far new versions of nodes are, and what an operator asks of their rollouts."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from cli.application import create_app, examples
from cli.console import output_console
from cli.name_completion import pool_names, rollout_names
from cli.nodes.requests import asked_reason
from cli.nodes.workflows import run
from cli.options import Cluster, Output, Ticket
from cli.rollout_view.reading import read_rollout, read_rollouts
from cli.rollout_view.requests import ask
from cli.rollout_view.tables import list_document, print_list, print_rollout, show_document
from tenon.apis.noderollout import MAX_WAVES
from tenon.messages.rollout import RolloutOperator
from workflows.rollout import RolloutWorkflow

app = create_app(help="Show how far new versions of nodes are, and start, approve, pause or end their rollouts.")

Pool = Annotated[
    str, typer.Argument(metavar="NODEPOOL", help="The NodePool that is rolled out.", autocompletion=pool_names)
]
By = Annotated[str, typer.Option("--by", metavar="NAME", help="Who asks. Default: your user of Kubernetes.")]
Why = Annotated[
    str | None,
    typer.Option("--reason", metavar="TEXT", help="Why, for the status. A terminal is asked if it is missing."),
]


@app.command("list", epilog=examples("tenon rollout list", "tenon rollout list -o json"))
def list_(output: Output = "table") -> None:
    """List the phase, the versions and the wave of each NodePool that a NodeRollout governs.

    It reads the status of NodeRollouts, so it needs no Temporal.
    """
    rollouts = run(read_rollouts())
    if output == "json":
        print(json.dumps(list_document(rollouts), indent=2))
    elif not rollouts:
        print("The cluster has no NodeRollout.", file=sys.stderr)
    else:
        print_list(rollouts, output_console())


@app.command(epilog=examples("tenon rollout show web", "tenon rollout show web -o json | jq '.nodePools[].waves'"))
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The NodeRollout.", autocompletion=rollout_names)],
    output: Output = "table",
    cluster: Cluster = None,
) -> None:
    """Show what a NodeRollout asks for, how far each NodePool is, and the waves with the evidence of their gates.

    Temporal has the waves. Without it, the command shows what the status says.
    """
    rollout = run(read_rollout(name, cluster))
    if rollout.progress_problem:
        print(f"From the status alone, without waves and evidence: {rollout.progress_problem}", file=sys.stderr)
    if output == "json":
        print(json.dumps(show_document(rollout), indent=2))
    else:
        print_rollout(rollout, output_console())


@app.command(epilog=examples("tenon rollout start web --reason 'new base image under the same name'"))
def start(pool: Pool, by: By = "", reason: Why = None, ticket: Ticket = "", cluster: Cluster = None) -> None:
    """Replace all nodes of a NodePool in waves, although they have the current version."""
    _ask(RolloutWorkflow.start, pool, by, reason, ticket, cluster)


@app.command(
    epilog=examples(
        "tenon rollout approve web --reason 'seen in staging'",
        "tenon rollout approve web --wave 4 --by ann --ticket OPS-12 --reason AMI",
    )
)
def approve(
    pool: Pool,
    wave: Annotated[
        int | None,
        typer.Option(
            "--wave",
            metavar="N",
            min=1,
            max=MAX_WAVES,
            help="The wave. Default: the one that waits, or else the next one.",
        ),
    ] = None,
    by: By = "",
    reason: Why = None,
    ticket: Ticket = "",
    cluster: Cluster = None,
) -> None:
    """Let the wave begin that waits for an approval, or a later one without a wait."""
    _ask(RolloutWorkflow.approve, pool, by, reason, ticket, cluster, wave)


@app.command(epilog=examples("tenon rollout pause web --reason INC-4711"))
def pause(pool: Pool, by: By = "", reason: Why = None, ticket: Ticket = "", cluster: Cluster = None) -> None:
    """Replace no more nodes for the new version until `tenon rollout resume`."""
    _ask(RolloutWorkflow.pause, pool, by, reason, ticket, cluster)


@app.command(epilog=examples("tenon rollout resume web --reason 'the alert was false'"))
def resume(pool: Pool, by: By = "", reason: Why = None, ticket: Ticket = "", cluster: Cluster = None) -> None:
    """Continue a paused rollout, or begin again with a version that was halted or rolled back."""
    _ask(RolloutWorkflow.resume, pool, by, reason, ticket, cluster)


@app.command(epilog=examples("tenon rollout abort web --reason 'release in progress'"))
def abort(pool: Pool, by: By = "", reason: Why = None, ticket: Ticket = "", cluster: Cluster = None) -> None:
    """Stop a rollout where it is. Nodes with the new version stay."""
    _ask(RolloutWorkflow.abort, pool, by, reason, ticket, cluster)


@app.command(epilog=examples("tenon rollout rollback web --ticket INC-4711 --reason 'slow disks'"))
def rollback(pool: Pool, by: By = "", reason: Why = None, ticket: Ticket = "", cluster: Cluster = None) -> None:
    """Replace the nodes with the new version by nodes with the last good one, and hold the new one back."""
    _ask(RolloutWorkflow.rollback, pool, by, reason, ticket, cluster)


def _ask(
    update: Any,
    pool: str,
    by: str,
    reason: str | None,
    ticket: str,
    cluster: str | None,
    wave: int | None = None,
) -> None:
    """Send the request, and print the answer."""
    why = asked_reason(reason, "the status of the rollout")
    operator = RolloutOperator(pool=pool, by=by, reason=why, ticket=ticket, wave=wave)
    print(f"{pool}: {run(ask(update, operator, cluster))}")
