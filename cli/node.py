"""``tenon node``: shows and controls nodes through their workflows."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import io
import json
import os
import sys
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markdown import Markdown
from temporalio.client import Client, WorkflowHandle, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from activities.clock import utc_now
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ConfigError
from activities.kubernetes.resources import EVENTS
from cli.application import create_app, examples
from cli.console import output_console
from cli.context import Context
from cli.name_completion import node_names
from cli.nodes import outcomes
from cli.nodes.control import (
    Command,
    DryRun,
    Most,
    Names,
    Options,
    Pool,
    Reason,
    Selector,
    Ticket,
    Timeout,
    Wait,
    Yes,
    carry_out,
    choice_of,
)
from cli.nodes.listing import NodeList, read_list
from cli.nodes.requests import DRAIN, EXPIRE, FORCE_DRAIN, KEEP, asking, asking_to_reboot
from cli.nodes.stuck import with_remedies, without_nodes_documents, without_nodes_markdown
from cli.nodes.table import list_lines
from cli.nodes.workflows import (
    Cluster,
    NodeError,
    claim_of,
    connected,
    newest_of,
    not_found,
    run,
)
from cli.temporal_ui import NoUiError, ui_of
from tenon.ec2.refusals.unavailable import shortages
from tenon.fleet.choice import Choice
from tenon.fleet.document import row_document
from tenon.fleet.order import SortKey, ordered
from tenon.fleet.rows import NodeRow
from tenon.kube.selector_text import SelectorError
from tenon.kube.timestamps import format_instant
from tenon.node.remedies import remedies, report
from tenon.node.state import NodeState
from tenon.node.stays import stays
from tenon.node.timeline import blocked_since, blocked_text, details, why_blocked
from worker.settings import parse_duration
from workflows import names
from workflows.nodeclaim import NodeClaimWorkflow

app = create_app(no_args_is_help=True, help="Watch and control nodes through their workflows.")

WATCH_SECONDS = 2.0
"""Seconds between two looks at all nodes."""

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="A NodeClaim, its Node or its instance.", autocompletion=node_names)
]
Output = Annotated[Literal["table", "json"], typer.Option("--output", "-o", help="table or json.")]
Blocked = Annotated[bool, typer.Option("--blocked", help="Only blocked nodes, and what else waits for you.")]


class ListOutput(StrEnum):
    """Output format of the list."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    CSV = "csv"
    NAME = "name"


def _choice(
    names: Sequence[str] | None, selector: str, pool: str, most: int | None = None, *, selects_leaving: bool = False
) -> Choice:
    try:
        return choice_of(names, selector, pool, most, selects_leaving=selects_leaving)
    except SelectorError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None


@app.command(
    epilog=examples(
        "tenon node drain ip-10-0-0-6.ec2.internal --reason 'its disk is slow'",
        "tenon node drain --pool web --max 3 --wait --reason 'new AMI'",
        "tenon node drain -l team=shop --dry-run",
    )
)
def drain(
    name: Names = None,
    selector: Selector = "",
    pool: Pool = "",
    most: Most = None,
    dry_run: DryRun = False,
    wait: Wait = False,
    timeout: Timeout = "30m",
    yes: Yes = False,
    reason: Reason = None,
    ticket: Ticket = "",
    cluster: Cluster = None,
) -> None:
    """Cordon, drain and terminate nodes, within PodDisruptionBudgets."""
    options = Options(cluster, dry_run, wait, timeout, yes, reason, ticket)
    carry_out(Command("drain", "draining", asking(DRAIN)), _choice(name, selector, pool, most), options)


@app.command(
    "force-drain",
    epilog=examples(
        "tenon node force-drain default-x7k2p --reason 'the machine hangs'",
        "tenon node force-drain -l rack=7 --dry-run",
    ),
)
def force_drain(
    name: Names = None,
    selector: Selector = "",
    pool: Pool = "",
    most: Most = None,
    dry_run: DryRun = False,
    wait: Wait = False,
    timeout: Timeout = "30m",
    yes: Yes = False,
    reason: Reason = None,
    ticket: Ticket = "",
    cluster: Cluster = None,
) -> None:
    """Delete the pods of nodes at once, even protected ones, and terminate the nodes."""
    options = Options(cluster, dry_run, wait, timeout, yes, reason, ticket)
    command = Command("force-drain", "draining by force", asking(FORCE_DRAIN), protected_fate="deleted all the same")
    carry_out(command, _choice(name, selector, pool, most, selects_leaving=True), options)


@app.command(
    epilog=examples("tenon node expire default-x7k2p", "tenon node expire --pool web --max 1 --wait --reason rotation")
)
def expire(
    name: Names = None,
    selector: Selector = "",
    pool: Pool = "",
    most: Most = None,
    dry_run: DryRun = False,
    wait: Wait = False,
    timeout: Timeout = "30m",
    yes: Yes = False,
    reason: Reason = None,
    ticket: Ticket = "",
    cluster: Cluster = None,
) -> None:
    """Treat nodes as expired now."""
    options = Options(cluster, dry_run, wait, timeout, yes, reason, ticket)
    carry_out(Command("expire", "expired", asking(EXPIRE)), _choice(name, selector, pool, most), options)


@app.command(
    epilog=examples(
        "tenon node reboot default-x7k2p --reason 'new kernel' --grace-period 5m",
        "tenon node reboot -l rack=7 --dry-run",
        "tenon node reboot --pool gpu --max 2 --reason 'GPU lost' --no-wait",
    )
)
def reboot(
    name: Names = None,
    selector: Selector = "",
    pool: Pool = "",
    most: Most = None,
    dry_run: DryRun = False,
    grace_period: Annotated[
        str | None,
        typer.Option(
            "--grace-period",
            metavar="DURATION",
            help="How long pods are evicted first, such as 5m; 0s for none. Then the others ride through. "
            "Default: terminationGracePeriod of the NodeClaim, or no limit.",
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Show progress until the reboots end.")] = True,
    timeout: Timeout = "1h",
    yes: Yes = False,
    reason: Reason = None,
    ticket: Ticket = "",
    cluster: Cluster = None,
) -> None:
    """Reboot machines of nodes in place: keep pods away, evict them, reboot."""
    try:
        seconds = None if grace_period is None else parse_duration(grace_period).total_seconds()
    except ValueError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None
    command = Command(
        "reboot",
        "rebooting",
        asking_to_reboot(seconds),
        protected_fate=_fate_in_reboot(grace_period, seconds),
        judge=outcomes.reboot,
        in_time="rebooted in time",
    )
    options = Options(cluster, dry_run, wait, timeout, yes, reason, ticket)
    carry_out(command, _choice(name, selector, pool, most), options)


def _fate_in_reboot(grace_period: str | None, seconds: float | None) -> str:
    if seconds is None:
        return "the node waits for those, for its terminationGracePeriod at most"
    return f"those ride through the reboot after {grace_period}" if seconds else "no pod is evicted"


@app.command(
    epilog=examples(
        "tenon node keep default-x7k2p --for 4h --reason 'I am debugging on it'",
        "tenon node keep -l team=shop --for 48h --reason 'Black Friday'",
    )
)
def keep(
    name: Names = None,
    duration: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="How long, for example 4h or 90m.")
    ] = "24h",
    selector: Selector = "",
    pool: Pool = "",
    most: Most = None,
    dry_run: DryRun = False,
    reason: Reason = None,
    ticket: Ticket = "",
    cluster: Cluster = None,
) -> None:
    """Protect nodes from disruption and expiry for some time."""
    try:
        until = utc_now() + parse_duration(duration)
    except ValueError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None
    command = Command("keep", f"kept until {until:%Y-%m-%d %H:%M:%S} UTC", asking(KEEP, until), moves_pods=False)
    options = Options(cluster, dry_run, reason=reason, ticket=ticket)
    carry_out(command, _choice(name, selector, pool, most), options)


@app.command(epilog=examples("tenon node unkeep default-x7k2p --reason 'I am done'"))
def unkeep(
    name: Names = None,
    selector: Selector = "",
    pool: Pool = "",
    most: Most = None,
    dry_run: DryRun = False,
    reason: Reason = None,
    ticket: Ticket = "",
    cluster: Cluster = None,
) -> None:
    """End the protection that `keep` began: disruption and expiry take the nodes again."""
    command = Command("unkeep", "no longer kept", asking(KEEP, utc_now()), moves_pods=False)
    options = Options(cluster, dry_run, reason=reason, ticket=ticket)
    carry_out(command, _choice(name, selector, pool, most), options)


@app.command(
    epilog=examples("tenon node show default-x7k2p", "tenon node show i-0abc1234 -o json    # also after its end")
)
def show(name: Name, cluster: Cluster = None, output: Output = "table") -> None:
    """Show a node's state and timeline, also after its end; if it is blocked, also what resolves that."""

    async def query() -> tuple[NodeState, str, str]:
        context, client = await connected(cluster)
        handle = client.get_workflow_handle(names.nodeclaim_id(context.cluster, await claim_of(name)))
        try:
            try:
                state = await handle.query(NodeClaimWorkflow.status)
            except RPCError as error:
                ended = await newest_of(name, cluster) if error.status is RPCStatusCode.NOT_FOUND else None
                if ended is None:
                    raise
                handle = ended
                state = await handle.query(NodeClaimWorkflow.status)
        except (WorkflowQueryFailedError, RPCError) as error:
            raise NodeError(not_found(handle, error)) from None
        if output == "json":
            return state, "", ""
        return state, await _why_it_stays(state), await _page_of(context, client, handle)

    state, why, page = run(query())
    if output == "json":
        print(state.model_dump_json(indent=2))
    else:
        output_console().print(Markdown("\n\n".join([details(state), report(state), why])))
        if page:
            print(f"\nIts page in Temporal's UI: {page}")


async def _page_of(context: Context, client: Client, handle: WorkflowHandle[Any, Any]) -> str:
    """Return the link of the workflow's page in Temporal's UI; empty if nothing says where the UI is."""
    url = os.environ.get("TEMPORAL_UI_URL") or context.environment.get("TEMPORAL_UI_URL")
    with contextlib.suppress(NoUiError, RPCError):
        pages = ui_of(client, url)
        return pages.workflow(handle.id, (await handle.describe()).run_id)
    return ""


async def _why_it_stays(state: NodeState) -> str:
    """Return what events say keeps a node that should be disrupted; empty if none does or nobody answers."""
    if state.stage.leaving:
        return ""
    try:
        kube = await Kube.connect()
    except ConfigError:
        return ""
    try:
        about = f"involvedObject.kind=NodeClaim,involvedObject.name={state.claim.name}"
        return stays(await kube.list(EVENTS, field_selector=about), utc_now())
    except ApiError as error:
        print(f"The events of {state.claim.name} cannot be read: {error}", file=sys.stderr)
        return ""
    finally:
        await kube.close()


@app.command(
    "list",
    epilog=examples(
        "tenon node list --sort price",
        "tenon node list -l team=shop -o wide",
        "tenon node list --blocked    # what needs you, and what resolves it",
        "tenon node list --pool web -o name | xargs tenon node keep --for 4h",
    ),
)
def list_nodes(
    cluster: Cluster = None,
    output: Annotated[
        ListOutput, typer.Option("--output", "-o", help="wide and a pipe have all columns; the others are for scripts.")
    ] = ListOutput.TABLE,
    blocked: Blocked = False,
    selector: Selector = "",
    pool: Pool = "",
    sort: Annotated[SortKey, typer.Option("--sort", help="What rows are sorted by; figures from large to small.")] = (
        SortKey.NAME
    ),
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Then print each node again that changes, until Ctrl-C.")
    ] = False,
) -> None:
    """List nodes with their use, price, age, stage and expiry, and what blocks the blocked ones.

    With --blocked also pods that no node is bought for, commands that wait for approval, and what EC2 refuses.
    """
    choice = _choice(None, selector, pool)
    if watch and output not in (ListOutput.TABLE, ListOutput.WIDE):
        print("--watch prints tables only.", file=sys.stderr)
        raise typer.Exit(2)

    async def read() -> NodeList:
        return await read_list(cluster, blocked=blocked, selects=choice.selects)

    nodes = run(read())
    _print_list(nodes, ordered(nodes.rows, sort), output, blocked=blocked)
    if watch:
        run(_watch(nodes, read, output))


def _print_list(nodes: NodeList, rows: Sequence[NodeRow], output: ListOutput, *, blocked: bool) -> None:
    scarce = shortages(nodes.refusals.unavailable, utc_now())
    if output is ListOutput.JSON:
        documents = [_document(nodes, row) for row in rows]
        print(json.dumps([*documents, *without_nodes_documents(nodes, scarce)], indent=2))
        return
    if output is ListOutput.CSV:
        print(_csv([_facts_of(nodes, row) for row in rows]), end="")
        return
    if output is ListOutput.NAME:
        for row in rows:
            print(row.name)
        return
    if nodes.is_empty:
        print("No node is blocked, and nothing waits for you." if blocked else "No nodes.", file=sys.stderr)
        return
    if rows:
        _print_rows(nodes, rows, output)
    console = Console()
    for name, state in nodes.states.items():
        if state.blocked:
            _print(console, with_remedies(f"**{name}**: {blocked_text(state)}", remedies(state)))
    for markdown in without_nodes_markdown(nodes, scarce):
        _print(console, markdown)


def _print_rows(nodes: NodeList, rows: Sequence[NodeRow], output: ListOutput) -> None:
    console = output_console()
    width = console.width if console.is_terminal and output is not ListOutput.WIDE else None
    for line in list_lines(rows, nodes.now, width):
        console.print(line, soft_wrap=True, highlight=False)


def _csv(documents: Sequence[dict[str, Any]]) -> str:
    text = io.StringIO()
    if documents:
        writer = csv.DictWriter(text, fieldnames=list(documents[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(documents)
    return text.getvalue()


async def _watch(before: NodeList, read: Any, output: ListOutput) -> None:
    """Print nodes that change, with the time, until Ctrl-C."""
    facts_by_claim = {row.claim: _facts(row) for row in before.rows}
    names = {row.claim: row.name for row in before.rows}
    console = output_console()
    while True:
        await asyncio.sleep(WATCH_SECONDS)
        nodes = await read()
        changed = [row for row in nodes.rows if facts_by_claim.get(row.claim) != _facts(row)]
        gone_names = [names[claim] for claim in facts_by_claim if claim not in {row.claim for row in nodes.rows}]
        width = console.width if console.is_terminal and output is not ListOutput.WIDE else None
        if changed or gone_names:
            console.print(f"{nodes.now:%H:%M:%S} UTC", style="dim", highlight=False)
        for line in list_lines(changed, nodes.now, width)[1:-3] if changed else ():
            console.print(line, soft_wrap=True, highlight=False)
        for name in gone_names:
            console.print(f"{name} gone", highlight=False, soft_wrap=True)
        facts_by_claim = {row.claim: _facts(row) for row in nodes.rows}
        names = {row.claim: row.name for row in nodes.rows}


def _facts(row: NodeRow) -> tuple[object, ...]:
    """What makes a row one that has changed: not its age, and not how long something takes."""
    return row.stage, row.ready, row.is_blocked, row.kept_until, row.pods, row.price, row.disruption, row.node


def _print(console: Console, markdown: str) -> None:
    if console.is_terminal:
        console.print(Markdown(markdown))
    else:
        print(f"\n{markdown.replace('**', '')}")


def _facts_of(nodes: NodeList, row: NodeRow) -> dict[str, Any]:
    return row_document(row, nodes.now) | {"reason": nodes.reasons.get(row.claim, "")}


def _document(nodes: NodeList, row: NodeRow) -> dict[str, Any]:
    """A node as JSON: what `tenon top` says of it, why it leaves, and what blocks it."""
    document = _facts_of(nodes, row)
    state = nodes.states.get(row.claim)
    if state is None:
        return document
    since: datetime | None = blocked_since(state)
    return {
        **document,
        "why": why_blocked(state),
        **({"since": format_instant(since)} if since else {}),
        "blockingPods": [pod for pods in (state.blocked.pods if state.blocked else ()) for pod in pods.pods],
        "remedies": remedies(state),
    }
