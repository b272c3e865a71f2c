"""``tenon disruptions``: the commands that remove nodes, under way and ended, and how to cancel one.

Temporal has them. While it is away, the NodeClaims say which are under way.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer
from rich.markup import escape
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError
from temporalio.service import RPCError, RPCStatusCode

from activities.clock import utc_now
from activities.kubernetes.bounded_concurrency import bounded
from activities.kubernetes.errors import ApiError, ConfigError
from cli.actor import user_of_command
from cli.application import create_app, examples
from cli.command_reading import CONCURRENCY, CommandView, commands_query, outcome, read_command
from cli.console import output_console
from cli.context import ContextError
from cli.fleet_view.reading import FleetError, read_kubernetes
from cli.nodes.requests import COMMAND_TIMELINE, asked_reason
from cli.nodes.workflows import NodeError, connected, neither_answers, refused, run
from cli.options import Cluster, Output
from tenon.fleet.document import Fleet
from tenon.kube.timestamps import format_instant
from tenon.money import per_hour
from tenon.sentences import first_few
from worker.runtime.temporal.temporal_client import TemporalError
from workflows import names
from workflows.disruption_command import DisruptionCommandWorkflow

app = create_app(help="Show the commands that remove nodes: why, what for, what they save, and what they wait for.")

ENDED = 20
"""How many ended commands are shown."""
CANCELLED_WITHIN = 60.0
"""Seconds to wait until a cancelled command has ended. A step that runs is not interrupted."""
SHOWN_NODES = 5


@app.callback(
    invoke_without_command=True,
    epilog=examples(
        "tenon disruptions",
        "tenon disruptions --all -o json | jq 'map(.savingReached) | add'",
        "tenon disruptions cancel underutilized-7f3a --reason 'release in progress'",
    ),
)
def disruptions(
    ctx: typer.Context,
    all_: Annotated[bool, typer.Option("--all", help="Also the last ended commands.")] = False,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="How many ended ones --all shows.")] = ENDED,
    output: Output = "table",
    cluster: Cluster = None,
) -> None:
    """Show the commands that remove nodes: why, what for, what they save, and what they wait for."""
    if ctx.invoked_subcommand is not None:
        return
    commands = run(_read(cluster, limit if all_ else 0))
    if output == "json":
        print(json.dumps([_document(command) for command in commands], indent=2))
    elif not commands:
        print("No disruption command is under way." if not all_ else "No disruption command.", file=sys.stderr)
    else:
        _print(commands, utc_now())


@app.command(epilog=examples("tenon disruptions cancel underutilized-7f3a --reason 'release in progress'"))
def cancel(
    ident: Annotated[str, typer.Argument(metavar="ID", help="The command, as `tenon disruptions` shows it.")],
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Why, for its timeline. A terminal is asked.")
    ] = None,
    cluster: Cluster = None,
) -> None:
    """Cancel a command: after its current step it is undone, unless its nodes leave already."""
    print(run(_cancel(ident, asked_reason(reason, COMMAND_TIMELINE), cluster)))


async def _cancel(ident: str, reason: str, cluster: str | None) -> str:
    context, client = await connected(cluster)
    handle = client.get_workflow_handle_for(DisruptionCommandWorkflow.run, names.command_id(context.cluster, ident))
    try:
        if (await handle.describe()).status is not WorkflowExecutionStatus.RUNNING:
            raise NodeError(f"Command {ident} has ended already.")
        actor = await user_of_command("tenon disruptions")
        await handle.cancel(reason=f"{reason} ({actor})" if reason else actor)
        async with asyncio.timeout(CANCELLED_WITHIN):
            result = await handle.result()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise NodeError(f"No command {ident} exists: `tenon disruptions --all` shows the last ones.") from None
        raise NodeError(refused(error)) from None
    except TimeoutError:
        return f"{ident}: cancelled; it ends after its current step"
    except WorkflowFailureError as error:
        raise NodeError(f"Command {ident} failed: {error.cause}.") from None
    if result.failure:
        return f"{ident}: {result.failure}; what it had begun is undone"
    if result.replacement:
        return f"{ident}: no longer waits for the replacement; {result.replacement}"
    raise NodeError(f"Command {ident} came to its end first: {outcome(result)}.")


async def _read(cluster: str | None, ended: int) -> list[CommandView]:
    """Return the commands under way, the oldest first, and then so many ended ones, the newest first.

    Raises:
        NodeError: neither Temporal nor Kubernetes answers.
    """
    fleet = await _fleet()
    nodes = {row.claim: row.name for row in fleet.rows if row.claim} if isinstance(fleet, Fleet) else {}
    try:
        context, client = await connected(cluster)
        running = client.list_workflows(commands_query(context.cluster, running=True))
        executions = sorted([run async for run in running], key=lambda execution: execution.start_time)
        if ended:
            over = client.list_workflows(commands_query(context.cluster, running=False), limit=ended)
            executions += [execution async for execution in over]
        return await bounded(executions, CONCURRENCY, lambda execution: read_command(client, execution, nodes))
    except (TemporalError, ContextError, RPCError) as error:
        if not isinstance(fleet, Fleet):
            raise neither_answers(fleet, error) from None
        why = refused(error) if isinstance(error, RPCError) else error
        print(f"From NodeClaims alone, without steps and ended commands: {why}", file=sys.stderr)
        for note in fleet.notes:
            print(f"{note}.", file=sys.stderr)
        return [_of_claims(command) for command in fleet.commands]


async def _fleet() -> Fleet | FleetError | ApiError | ConfigError:
    """The nodes, for their names; why there are none if the API server does not answer."""
    try:
        return await read_kubernetes()
    except (FleetError, ApiError, ConfigError) as error:
        return error


def _of_claims(command: Any) -> CommandView:
    return CommandView(command.id, command.reason, command.nodes, command.replacements, predicted=command.saving)


def _document(command: CommandView) -> dict[str, Any]:
    return {
        "command": command.id,
        "reason": command.reason,
        "nodes": list(command.nodes),
        "replacements": list(command.replacements),
        "pods": command.pods,
        "savingPredicted": command.predicted,
        "savingReached": command.reached,
        "started": format_instant(command.started) if command.started else "",
        "ended": format_instant(command.ended) if command.ended else "",
        "step": command.step,
        "waits": command.waits,
        "explanation": list(command.explanation),
    }


def _print(commands: Sequence[CommandView], now: datetime) -> None:
    console = output_console()
    most = SHOWN_NODES if console.is_terminal else len(max((command.nodes for command in commands), key=len)) + 1

    def show(text: str) -> None:
        console.print(text, highlight=False, soft_wrap=not console.is_terminal)

    for command in commands:
        show(f"[bold]{escape(command.id)}[/]  {escape(command.reason)}  {_time(command, now)}")
        arrow = f" -> {first_few(list(command.replacements), most)}" if command.replacements else ""
        show(f"  {escape(first_few(list(command.nodes), most) + arrow)}")
        if money := _money(command):
            show(f"  {money}")
        for text in filter(None, (command.step, command.waits)):
            show(f"  {escape(text)}")


def _time(command: CommandView, now: datetime) -> str:
    if command.started is None:
        return "under way"
    if command.ended is None:
        return f"under way for {_span(now - command.started)}"
    return f"ended {_span(now - command.ended)} ago, after {_span(command.ended - command.started)}"


def _span(span: timedelta) -> str:
    seconds = max(0, int(span.total_seconds()))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _money(command: CommandView) -> str:
    """What the command saves, in a clause; empty if that is not known."""
    predicted = None if command.predicted is None else per_hour(command.predicted)
    if command.reached is not None:
        saves = f"saves {per_hour(command.reached)}" if command.reached else "saves nothing"
        return saves if predicted is None else f"{saves}; {predicted} was predicted"
    if predicted is None:
        return ""
    return f"was to save {predicted}; what it saves is not known" if command.ended else f"is to save {predicted}"
