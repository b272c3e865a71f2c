"""Carries out an operator's command on one node or many: says what it will do, asks, does it, and waits."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Any

import typer
from temporalio.client import WorkflowHandle, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from activities.clock import utc_now
from activities.kubernetes.bounded_concurrency import bounded
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ConfigError
from cli.actor import user_of_command
from cli.console import printable
from cli.fleet_view.reading import FleetError
from cli.name_completion import node_names, pool_names
from cli.nodes.impact import Impact, describe, impacts_of, sentence
from cli.nodes.outcomes import Judge, Outcome, removal
from cli.nodes.requests import Request, asked_reason, is_interactive
from cli.nodes.workflows import NodeError, claim_of, connected, not_found, run
from tenon.fleet.choice import Choice
from tenon.kube.selector_text import parse_selector
from tenon.messages.node import Operator
from tenon.node.state import NodeState
from tenon.sentences import counted
from worker.settings import parse_duration
from workflows import names
from workflows.nodeclaim import NodeClaimWorkflow

CONCURRENCY = 10
"""Maximum number of nodes that are asked concurrently."""
FOLLOW_SECONDS = 1.0
"""Seconds between two looks at nodes that are followed."""
SLACK = timedelta(seconds=5)
"""How much the clock of the server may be behind, so that the first line about a node is not missed."""
TRANSIENT = (RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.UNAVAILABLE)
"""Errors of Temporal that pass."""
UNFINISHED = 1
"""The exit status if nodes have not done it in time."""
REFUSED = 2
"""The exit status if a node refuses or fails."""

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME", help="NodeClaims, their Nodes or their instances.", autocompletion=node_names),
]
Selector = Annotated[
    str,
    typer.Option("--selector", "-l", metavar="LABELS", help="Nodes with these labels, as kubectl takes them: team=a."),
]
Pool = Annotated[str, typer.Option("--pool", metavar="NAME", help="Nodes of this NodePool.", autocompletion=pool_names)]
Most = Annotated[
    int | None,
    typer.Option("--max", metavar="N", min=1, help="At most so many nodes, of selected ones the oldest."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say which nodes and pods it is about, and do nothing.")]
Wait = Annotated[bool, typer.Option("--wait", help="Show progress until the nodes are gone.")]
Timeout = Annotated[
    str, typer.Option("--timeout", metavar="DURATION", help="How long --wait waits; then the exit status is 1.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask at a terminal.")]
Reason = Annotated[
    str | None,
    typer.Option("--reason", metavar="TEXT", help="Why, for the timeline. A terminal is asked if it is missing."),
]


@dataclass(frozen=True, slots=True)
class OperatorCommand:
    """A command of an operator and how it is carried out."""

    verb: str
    """What it does, as its name says it."""
    done: str
    """What is so once the node has accepted, such as ``draining``."""
    request: Request
    protected_fate: str = "the node waits for those"
    """What happens to pods that may not be evicted now."""
    moves_pods: bool = True
    """Whether the pods of the nodes must go, so that a terminal asks first."""
    judge: Judge = removal
    """When a node has done it, and how that ended."""
    in_time: str = "gone in time"
    """What nodes are not if they have not done it in time."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a command is carried out, as its options say it."""

    cluster: str | None = None
    dry_run: bool = False
    wait: bool = False
    timeout: str = "30m"
    yes: bool = False
    reason: str | None = None
    ticket: str = ""


def choice_of(
    names_: Sequence[str] | None, selector: str, pool: str, most: int | None, *, selects_leaving: bool = False
) -> Choice:
    """Return which nodes a command is about.

    Raises:
        SelectorError: the selector cannot be read.
    """
    return Choice(tuple(names_ or ()), parse_selector(selector), pool, most, selects_leaving)


@dataclass(frozen=True, slots=True)
class _Target:
    """A node that is asked. ``name``: what the operator calls it."""

    name: str
    handle: WorkflowHandle[Any, Any]


def carry_out(command: OperatorCommand, choice: Choice, options: Options) -> None:
    """Carry out a command, and exit with status 2 if a node refuses or fails, and 1 if it has not done it in time."""
    try:
        within = parse_duration(options.timeout)
    except ValueError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None
    asks = command.moves_pods and is_interactive() and not options.yes
    needs_rows = options.dry_run or asks or not choice.is_one_name
    impacts = run(_impacts(choice, options)) if needs_rows else None
    if impacts is not None and not impacts:
        print("No node is selected.", file=sys.stderr)
        return
    if options.dry_run and impacts is not None:
        print("\n".join(describe(f"would {command.verb}", impacts, command.protected_fate)))
        return
    if asks:
        _confirm(command, choice, impacts)
    reason = asked_reason(options.reason)
    failed = run(_ask_all(command, choice, impacts, options, reason, within))
    if failed:
        raise typer.Exit(failed)


async def _impacts(choice: Choice, options: Options) -> list[Impact] | None:
    """What the nodes have; None if the API server does not answer, and one name is enough to ask its workflow."""
    try:
        return await impacts_of(choice)
    except (FleetError, ApiError, ConfigError) as error:
        if options.dry_run or not choice.is_one_name:
            raise
        print(f"Which pods would move is not known: {error}", file=sys.stderr)
        return None


def _confirm(command: OperatorCommand, choice: Choice, impacts: Sequence[Impact] | None) -> None:
    if impacts is None:
        if not typer.confirm(f"{command.verb.capitalize()} {choice.names[0]} and all its pods?"):
            raise typer.Exit(2)
        return
    if len(impacts) > 1 or any(impact.protected for impact in impacts):
        for line in describe(command.verb, impacts, command.protected_fate)[1:]:
            typer.echo(line)
    text = sentence(command.verb, impacts, command.protected_fate)
    if not typer.confirm(f"{text[:1].upper()}{text[1:]}?"):
        raise typer.Exit(2)


async def _ask_all(
    command: OperatorCommand,
    choice: Choice,
    impacts: Sequence[Impact] | None,
    options: Options,
    reason: str,
    within: timedelta,
) -> int:
    """Ask each node, and return the exit status: 0 if all do it."""
    context, client = await connected(options.cluster)
    operator = Operator(by=await user_of_command(), reason=reason, ticket=options.ticket)
    if impacts is None:
        claims = {choice.names[0]: await claim_of(choice.names[0])}
    else:
        claims = {impact.row.name: impact.row.claim for impact in impacts}
    targets = [
        _Target(name, client.get_workflow_handle(names.nodeclaim_id(context.cluster, claim)))
        for name, claim in claims.items()
    ]
    now = await _server_time()
    answers = await bounded(targets, CONCURRENCY, lambda target: _ask(target, command, operator, now))
    accepted = [target for target, has_accepted in zip(targets, answers, strict=True) if has_accepted]
    status = REFUSED if len(accepted) < len(targets) else 0
    if options.wait and accepted:
        return max(status, await _follow(command, accepted, now, within))
    return status


async def _server_time() -> datetime:
    """The time of the API server, in whole seconds as NodeClaims record it.

    Workers measure the drain of a reboot from it, and the clock of an operator's machine may be wrong. Without the API
    server, it is the only one.
    """
    try:
        kube = await Kube.connect()
    except ConfigError:
        return utc_now().replace(microsecond=0)
    try:
        return await kube.server_time()
    except ApiError as error:
        print(
            f"The clock of this machine is used, because the API server does not say the time: {error}", file=sys.stderr
        )
        return utc_now().replace(microsecond=0)
    finally:
        await kube.close()


async def _ask(target: _Target, command: OperatorCommand, operator: Operator, now: datetime) -> bool:
    try:
        has_answered = await command.request(target.handle, target.name, operator, now)
    except NodeError as error:
        print(error, file=sys.stderr)
        return False
    if not has_answered:
        print(f"{target.name}: no worker answers, and Temporal keeps the request until one runs", flush=True)
        return True
    follow = f"; follow it with `tenon node show {target.name}`" if command.moves_pods else ""
    print(f"{target.name}: {command.done}{follow}", flush=True)
    return True


async def _follow(command: OperatorCommand, targets: Sequence[_Target], asked_at: datetime, within: timedelta) -> int:
    """Print what happens to the nodes until it is over, and return the exit status."""
    deadline = time.monotonic() + within.total_seconds()
    shown = dict.fromkeys((target.name for target in targets), 0)
    open_targets, status = list(targets), 0
    while open_targets:
        states = await bounded(open_targets, CONCURRENCY, partial(_state, deadline=deadline))
        remaining = []
        for target, state in zip(open_targets, states, strict=True):
            lines = [entry for entry in state.timeline if entry.at >= asked_at - SLACK] if state is not None else []
            for entry in lines[shown[target.name] :]:
                print(f"{entry.at:%H:%M:%S}  {target.name}: {printable(entry.text)}", flush=True)
            shown[target.name] = max(shown[target.name], len(lines))
            outcome = command.judge(state, asked_at)
            if outcome is None:
                remaining.append(target)
            else:
                status = max(status, _print_outcome(target, outcome))
        open_targets = remaining
        if open_targets and time.monotonic() >= deadline:
            still = ", ".join(target.name for target in open_targets)
            count = counted(len(open_targets), "node")
            print(f"{count} not {command.in_time}: {still}. See `tenon node list --blocked`.", file=sys.stderr)
            return max(status, UNFINISHED)
        if open_targets:
            await asyncio.sleep(FOLLOW_SECONDS)
    return status


def _print_outcome(target: _Target, outcome: Outcome) -> int:
    """Print how it ended for a node, and return the exit status."""
    if outcome.failed:
        print(f"{target.name}: {outcome.text}.", file=sys.stderr, flush=True)
        return REFUSED
    print(f"{utc_now():%H:%M:%S}  {target.name}: {outcome.text}", flush=True)
    return 0


async def _state(target: _Target, deadline: float) -> NodeState | None:
    """The state of a node; None if its workflow is gone. Temporal may be slow or away until the deadline."""
    while True:
        try:
            state: NodeState = await target.handle.query(NodeClaimWorkflow.status)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            if error.status not in TRANSIENT or time.monotonic() >= deadline:
                raise NodeError(not_found(target.handle, error)) from None
            await asyncio.sleep(FOLLOW_SECONDS)
        except WorkflowQueryFailedError as error:
            raise NodeError(not_found(target.handle, error)) from None
        else:
            return state
