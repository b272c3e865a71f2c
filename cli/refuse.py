"""``tenon refuse``: refuses disruption commands that wait for a person."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from cli.application import create_app, examples
from cli.approve import By, Ids, Why, answer_all
from cli.durations import duration_of
from cli.nodes.requests import COMMAND_TIMELINE, asked_reason
from cli.nodes.workflows import run
from cli.options import Cluster, Ticket
from tenon.messages.command_approval import Refusal
from workflows.disruption_command import DisruptionCommandWorkflow

app = create_app()


@app.command(
    epilog=examples(
        "tenon refuse drifted-7f3a0c21b9de --reason 'release in progress'",
        "tenon refuse drifted-7f3a0c21b9de --for 72h --reason 'not before Monday'",
    )
)
def refuse(
    ids: Ids,
    duration: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="How long the nodes are left alone, up to 720h.")
    ] = "24h",
    by: By = "",
    reason: Why = None,
    ticket: Ticket = "",
    cluster: Cluster = None,
) -> None:
    """Refuse commands that wait for approval: they touch nothing, and their nodes are left alone for a time."""
    try:
        hours = duration_of(duration).total_seconds() / 3600
    except ValueError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None
    why = asked_reason(reason, COMMAND_TIMELINE)

    def operator(name: str) -> Refusal:
        return Refusal(by=by or name, reason=why, ticket=ticket, hours=hours)

    run(answer_all(ids, DisruptionCommandWorkflow.refuse, operator, "refused", "tenon refuse", cluster))
