"""``tenon node``: shows and controls nodes through their workflows."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import json
import os
import re
import socket
import sys
from collections.abc import Awaitable, Coroutine, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, TypeVar

import typer
from rich.console import Console
from rich.markdown import Markdown
from temporalio.client import (
    Client,
    WorkflowExecution,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.service import RPCError, RPCStatusCode

from activities.clock import utc_now
from activities.kubernetes.bounded_concurrency import bounded
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ApiUnreachableError, ConfigError
from activities.kubernetes.resources import EVENTS, NODECLAIMS, Resource
from cli.application import create_app
from cli.console import output_console
from cli.context import Context, ContextError, resolve
from cli.refusals import QUERY_TIMEOUT, RefusalsUnknownError, purchase_pauses_of, refusals_of
from cli.temporal_ui import NoUiError, ui_of
from tenon.ec2.refusals.unavailable import shortages
from tenon.errors import TenonError
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.timestamps import format_instant
from tenon.messages.node import Keep, Operator, OperatorAnswer, RebootAnswer, RebootRequest
from tenon.messages.provisioning import LaunchBreaker, LaunchReport, PurchasePause, ShortageWait
from tenon.node.breaker import sentence, subject
from tenon.node.reboot import FAILED
from tenon.node.reboot_record import operation_id
from tenon.node.remedies import remedies, report
from tenon.node.state import NodeState
from tenon.node.stays import stays
from tenon.node.timeline import blocked_since, blocked_text, details, why_blocked
from tenon.provisioning.purchase_pauses import list_sentence
from tenon.provisioning.shortage_waits import waiting_sentence
from worker.runtime.encrypted_payloads import PayloadCodecError
from worker.runtime.temporal_client import TemporalError, connect
from worker.settings import parse_duration
from workflows import names
from workflows.nodeclaim import NodeClaimWorkflow

app = create_app(no_args_is_help=True, help="Watch and control nodes through their workflows.")
T = TypeVar("T")

CONCURRENCY = 10
"""Maximum number of blocked nodes that are queried concurrently."""
FOLLOW_SECONDS = 1.0
"""Seconds between two looks at a reboot."""
ANSWERED_WITHIN = timedelta(seconds=15)
"""How long to wait for the answer of a node's workflow. Temporal does not keep an update that no worker has taken."""
SELF_SUBJECT_REVIEWS = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", False, "SelfSubjectReview")
RequestKind = tuple[Any, Any]
"""An update of the node's workflow, and the signal that asks for the same."""
_DRAIN: RequestKind = (NodeClaimWorkflow.ask_drain, NodeClaimWorkflow.drain)
_FORCE_DRAIN: RequestKind = (NodeClaimWorkflow.ask_force_drain, NodeClaimWorkflow.force_drain)
_EXPIRE: RequestKind = (NodeClaimWorkflow.ask_expire, NodeClaimWorkflow.expire)
_KEEP: RequestKind = (NodeClaimWorkflow.ask_keep, NodeClaimWorkflow.keep)
_NAME = re.compile(r"[A-Za-z0-9.-]+")

Name = Annotated[str, typer.Argument(metavar="NAME", help="A NodeClaim, its Node or its instance.")]
Cluster = Annotated[
    str | None, typer.Option("--cluster", metavar="NAME", envvar="CLUSTER_NAME", help="Name of the cluster.")
]
Reason = Annotated[
    str | None,
    typer.Option("--reason", metavar="TEXT", help="Why, for the timeline. A terminal is asked if it is missing."),
]
Ticket = Annotated[str, typer.Option("--ticket", metavar="KEY", help="Where the reason is written down.")]
Output = Annotated[Literal["table", "json"], typer.Option("--output", "-o", help="table or json.")]
Blocked = Annotated[bool, typer.Option("--blocked", help="Only nodes that are blocked and need attention.")]


class NodeError(TenonError):
    """A node that cannot be found or controlled. The message is one sentence."""


def _run(job: Coroutine[Any, Any, T]) -> T:
    try:
        return asyncio.run(job)
    except (NodeError, ContextError, TemporalError, PayloadCodecError, ApiUnreachableError) as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None
    except RPCError as error:
        print(_refused(error), file=sys.stderr)
        raise typer.Exit(2) from None


def _refused(error: RPCError) -> str:
    return f"Temporal refused: {error.message}."


async def _connect(cluster: str | None) -> tuple[Context, Client]:
    context = resolve(cluster)
    context.apply()
    return context, await connect()


async def _claim_of(name: str) -> str:
    """Return the NodeClaim with this name, or the one whose Node or instance has it."""
    try:
        kube = await Kube.connect()
    except ConfigError:
        return name  # without the API server, assume a NodeClaim's name
    try:
        for claim in map(ClaimRecord.of, await kube.list(NODECLAIMS)):
            if name in (claim.name, claim.node_name, claim.instance_id):
                return claim.name
    except ApiError as error:
        print(f"{name} is treated as the name of a NodeClaim: {error}", file=sys.stderr)
    finally:
        await kube.close()
    return name


async def _handle(name: str, cluster: str | None) -> WorkflowHandle[Any, Any]:
    context, client = await _connect(cluster)
    return client.get_workflow_handle(names.nodeclaim_id(context.cluster, await _claim_of(name)))


async def _newest_of(name: str, cluster: str | None) -> WorkflowHandle[Any, Any] | None:
    """Return the newest workflow of a Node or an instance with this name, which may be gone; None if there is none."""
    if not _NAME.fullmatch(name):
        return None
    context, client = await _connect(cluster)
    own = f"{names.NODE.name} = '{name}' OR {names.INSTANCE.name} = '{name}'"
    query = f"WorkflowType = 'NodeClaim' AND {names.CLUSTER.name} = '{context.cluster}' AND ({own})"
    async for execution in client.list_workflows(query, limit=1):
        return client.get_workflow_handle(execution.id, run_id=execution.run_id)
    return None


async def user_of_command(command: str = "tenon node") -> str:
    """Return who runs this command, for the node's timeline: the user that the API server sees, or USER@HOST."""
    with contextlib.suppress(ConfigError, ApiError, KeyError):
        kube = await Kube.connect()
        try:
            review = await kube.create(SELF_SUBJECT_REVIEWS, {})
            return f"{review['status']['userInfo']['username']}, by {command}"
        finally:
            await kube.close()
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        user = f"user {os.getuid()}"
    return f"{user}@{socket.gethostname()}, by {command}"


def _asked_reason(reason: str | None) -> str:
    """Return the reason, and ask for it in a terminal if there is none. Scripts are not asked."""
    if reason is None and sys.stdin.isatty() and sys.stdout.isatty():
        answer: str = typer.prompt("Why (for the timeline of the node)", default="", show_default=False)
        return answer
    return reason or ""


async def _ask(
    name: str, cluster: str | None, request_kind: RequestKind, reason: str, ticket: str, until: datetime | None = None
) -> None:
    """Ask the node's workflow for something. If no worker answers, send a signal, which Temporal keeps.

    Raises:
        NodeError: the node does not do it, or there is no such node.
    """
    update, signal = request_kind
    operator = {"by": await user_of_command(), "reason": reason, "ticket": ticket}
    handle = await _handle(name, cluster)
    request = Operator(**operator) if until is None else Keep(**operator, until=until)
    try:
        try:
            answer: OperatorAnswer = await handle.execute_update(update, request, rpc_timeout=ANSWERED_WITHIN)
        except WorkflowUpdateRPCTimeoutOrCancelledError:
            await handle.signal(signal, request)
            print("No worker answers. Temporal keeps the request until one runs.", file=sys.stderr)
            return
    except WorkflowUpdateFailedError as error:
        raise NodeError(f"{name} refuses: {error.cause}") from None
    except RPCError as error:
        raise NodeError(_not_found(handle, error)) from None
    if not answer.accepted:
        raise NodeError(f"{name} refuses: {answer.why}.")


def _not_found(handle: WorkflowHandle[Any, Any], error: RPCError | WorkflowQueryFailedError) -> str:
    if isinstance(error, WorkflowQueryFailedError):
        return f"Workflow {handle.id} does not answer: {error}."
    if error.status is RPCStatusCode.NOT_FOUND:
        return f"No workflow {handle.id} is running: `tenon node list` shows the nodes whose workflow runs."
    return _refused(error)


@app.command()
def drain(name: Name, reason: Reason = None, ticket: Ticket = "", cluster: Cluster = None) -> None:
    """Cordon, drain and terminate a node, within PodDisruptionBudgets."""
    _run(_ask(name, cluster, _DRAIN, _asked_reason(reason), ticket))
    print(f"{name}: draining; follow it with `tenon node show {name}`")


@app.command("force-drain")
def force_drain(name: Name, reason: Reason = None, ticket: Ticket = "", cluster: Cluster = None) -> None:
    """Delete a node's pods at once, even protected ones, and terminate the node."""
    _run(_ask(name, cluster, _FORCE_DRAIN, _asked_reason(reason), ticket))
    print(f"{name}: draining by force; follow it with `tenon node show {name}`")


@app.command()
def expire(name: Name, reason: Reason = None, ticket: Ticket = "", cluster: Cluster = None) -> None:
    """Treat a node as expired now."""
    _run(_ask(name, cluster, _EXPIRE, _asked_reason(reason), ticket))
    print(f"{name}: expired; follow it with `tenon node show {name}`")


@app.command()
def reboot(
    name: Name,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why, for events and the timeline.")],
    grace_period: Annotated[
        str | None,
        typer.Option(
            "--grace-period",
            metavar="DURATION",
            help="How long pods are evicted first, such as 5m; 0s for none. Then the others ride through. "
            "Default: terminationGracePeriod of the NodeClaim, or no limit.",
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the reboot ends, and show it.")] = True,
    cluster: Cluster = None,
) -> None:
    """Reboot a node's machine in place: keep pods away, evict them, reboot."""
    try:
        seconds = None if grace_period is None else parse_duration(grace_period).total_seconds()
    except ValueError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None
    _run(_reboot(name, cluster, reason, seconds, wait=wait))


async def _reboot(name: str, cluster: str | None, reason: str, seconds: float | None, *, wait: bool) -> None:
    handle = await _handle(name, cluster)
    try:
        state: NodeState = await handle.query(NodeClaimWorkflow.status)
        now = utc_now()
        request = RebootRequest(
            operation_id=operation_id(state.claim.uid, now),
            reason=reason,
            drain_seconds=seconds,
            requested_at=now,
            actor=await user_of_command(),
        )
        answer: RebootAnswer = await handle.execute_update(NodeClaimWorkflow.reboot, request, id=request.operation_id)
        if not answer.accepted:
            raise NodeError(f"{name} does not reboot: {answer.why}.")
        if not wait:
            print(f"{name}: rebooting; follow it with `tenon node show {name}`")
            return
        await _follow(handle, request)
    except (WorkflowQueryFailedError, RPCError) as error:
        raise NodeError(_not_found(handle, error)) from None


async def _follow(handle: WorkflowHandle[Any, Any], request: RebootRequest) -> None:
    """Print what happens until the reboot has ended. The workflow goes on if this command is stopped.

    Raises:
        NodeError: the reboot failed, or the node leaves.
    """
    shown = 0
    while True:
        state: NodeState = await handle.query(NodeClaimWorkflow.status)
        lines = [entry for entry in state.timeline if entry.at >= request.requested_at]
        for entry in lines[shown:]:
            print(f"{entry.at:%H:%M:%S}  {entry.text}", flush=True)
        shown = max(shown, len(lines))
        if state.leave is not None:
            raise NodeError("The reboot has ended, because the node leaves: `tenon node show` says why.")
        accepted = request.requested_at in state.reboots
        if accepted and state.reboot is None:
            if any(entry.text.startswith(FAILED) for entry in lines):
                raise NodeError("The reboot failed, and the node stays as it was.")
            return
        await asyncio.sleep(FOLLOW_SECONDS)


@app.command()
def keep(
    name: Name,
    duration: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="How long, for example 4h or 90m.")
    ] = "24h",
    reason: Reason = None,
    ticket: Ticket = "",
    cluster: Cluster = None,
) -> None:
    """Protect a node from disruption and expiry for some time."""
    try:
        until = utc_now() + parse_duration(duration)
    except ValueError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None
    _run(_ask(name, cluster, _KEEP, _asked_reason(reason), ticket, until))
    print(f"{name}: kept until {until:%Y-%m-%d %H:%M:%S} UTC")


@app.command()
def show(name: Name, cluster: Cluster = None, output: Output = "table") -> None:
    """Show a node's state and timeline, also after its end; if it is blocked, also what resolves that."""

    async def query() -> tuple[NodeState, str, str]:
        context, client = await _connect(cluster)
        handle = client.get_workflow_handle(names.nodeclaim_id(context.cluster, await _claim_of(name)))
        try:
            try:
                state = await handle.query(NodeClaimWorkflow.status)
            except RPCError as error:
                ended = await _newest_of(name, cluster) if error.status is RPCStatusCode.NOT_FOUND else None
                if ended is None:
                    raise
                handle = ended
                state = await handle.query(NodeClaimWorkflow.status)
        except (WorkflowQueryFailedError, RPCError) as error:
            raise NodeError(_not_found(handle, error)) from None
        if output == "json":
            return state, "", ""
        return state, await _why_it_stays(state), await _page_of(context, client, handle)

    state, why, page = _run(query())
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


@app.command("list")
def list_nodes(cluster: Cluster = None, output: Output = "table", blocked: Blocked = False) -> None:
    """List the nodes that exist or are starting, and what blocks the blocked ones."""
    rows, states, refusals, pauses = _run(_collect(cluster, blocked))
    breakers, scarce, waits = refusals.breakers, shortages(refusals.unavailable, utc_now()), refusals.waits
    if output == "json":
        nodes = [row | _explained(states.get(row["nodeClaim"])) for row in rows]
        held_rows = [*map(_breaker_row, breakers), *map(_wait_row, waits), *map(_shortage_row, scarce)]
        print(json.dumps([*nodes, *held_rows, *map(_pause_row, pauses)], indent=2))
        return
    if not rows and not breakers and not scarce and not waits and not pauses:
        print("No node is blocked." if blocked else "No nodes.", file=sys.stderr)
        return
    header = ("NodeClaim", "Stage", "NodePool", "Type", "Zone", "Capacity", "Blocked", "Expires", "Reason")
    print(_columns([header, *(tuple(row.values()) for row in rows)]))
    console = Console()
    for name, state in states.items():
        if state.blocked:
            _print(console, f"**{name}**: {blocked_text(state)}\n\n" + "\n".join(f"- {r}" for r in remedies(state)))
    for breaker in breakers:
        probe = f"tried again at {format_instant(breaker.next_probe_at)}"
        _print(console, f"**{subject(breaker)}**: {sentence(breaker)}; {probe}")
    for wait in waits:
        _print(console, f"**Pending pods**: {waiting_sentence(wait)}")
    for text in scarce:
        _print(console, f"**EC2**: {text}")
    for pause in pauses:
        _print(console, f"**Pods**: {list_sentence(pause)}")


def _print(console: Console, markdown: str) -> None:
    if console.is_terminal:
        console.print(Markdown(markdown))
    else:
        print(f"\n{markdown.replace('**', '')}")


def _columns(rows: Sequence[Sequence[str]]) -> str:
    """Format rows as plain text, at full width without truncation."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("   ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


async def _collect(
    cluster: str | None, blocked: bool
) -> tuple[list[dict[str, str]], dict[str, NodeState], LaunchReport, Sequence[PurchasePause]]:
    """Return the list's rows, the states of the blocked nodes, and what EC2 and kube-scheduler refuse."""
    context, client = await _connect(cluster)
    query = f'WorkflowType = "NodeClaim" AND ExecutionStatus = "Running" AND {names.CLUSTER.name} = "{context.cluster}"'
    if blocked:
        query += f" AND {names.BLOCKED.name} = true"
    rows = [_row(execution) async for execution in client.list_workflows(query)]
    rows.sort(key=lambda row: row["nodeClaim"])

    async def ask(row: dict[str, str]) -> NodeState | None:
        handle = client.get_workflow_handle_for(
            NodeClaimWorkflow.run, names.nodeclaim_id(context.cluster, row["nodeClaim"])
        )
        try:
            return await handle.query(NodeClaimWorkflow.status, rpc_timeout=QUERY_TIMEOUT)
        except (WorkflowQueryFailedError, RPCError) as error:
            print(f"{row['nodeClaim']} does not say what blocks it: {error}", file=sys.stderr)
            return None

    answers = await bounded([row for row in rows if row["blocked"]], CONCURRENCY, ask)
    states = {state.claim.name: state for state in answers if state is not None}
    if not blocked:
        return rows, states, LaunchReport(), []
    refusals = await _or_nothing(refusals_of(client, context.cluster), LaunchReport())
    return rows, states, refusals, await _or_nothing(purchase_pauses_of(client, context.cluster), ())


async def _or_nothing(answer: Awaitable[T], nothing: T) -> T:
    """Return the answer of the provisioner's workflow, or ``nothing`` if it does not answer."""
    try:
        return await answer
    except RefusalsUnknownError as error:
        print(error, file=sys.stderr)
        return nothing


def _row_without_claim(pool: str, why: str, **more: Any) -> dict[str, Any]:
    """What is blocked without a NodeClaim, as a JSON row."""
    return {"nodeClaim": "", "nodePool": pool, "blocked": "yes", "why": why, **more}


def _shortage_row(text: str) -> dict[str, Any]:
    """What EC2 refuses of the whole account, so without a NodePool."""
    return _row_without_claim("", text)


def _pause_row(pause: PurchasePause) -> dict[str, Any]:
    """Pods for which no node is bought now."""
    until = format_instant(pause.until) if pause.until is not None else ""
    return _row_without_claim(pause.pool, list_sentence(pause), pods=pause.pods, waitingPods=pause.waiting, until=until)


def _wait_row(wait: ShortageWait) -> dict[str, Any]:
    """Pods that wait for a cheaper node."""
    return _row_without_claim(wait.pool, waiting_sentence(wait), nextTryAt=format_instant(wait.until))


def _breaker_row(breaker: LaunchBreaker) -> dict[str, Any]:
    """A NodePool or an EC2NodeClass whose launches wait."""
    next_probe_at = format_instant(breaker.next_probe_at)
    return _row_without_claim(breaker.pool, sentence(breaker), nodeClass=breaker.node_class, nextProbeAt=next_probe_at)


def _explained(state: NodeState | None) -> dict[str, Any]:
    """The additional JSON fields of a blocked node."""
    if state is None:
        return {}
    since = blocked_since(state)
    return {
        "why": why_blocked(state),
        **({"since": format_instant(since)} if since else {}),
        "remedies": remedies(state),
    }


def _row(execution: WorkflowExecution) -> dict[str, str]:
    attributes = {pair.key.name: pair.value for pair in execution.typed_search_attributes}
    keys = (names.STAGE, names.POOL, names.INSTANCE_TYPE, names.ZONE, names.CAPACITY_TYPE)
    stage, pool, kind, zone, capacity = (str(attributes.get(key.name, "")) for key in keys)
    expires = attributes.get(names.EXPIRES.name)
    return {
        "nodeClaim": execution.id.rsplit("/", 1)[-1],
        "stage": stage,
        "nodePool": pool,
        "instanceType": kind,
        "zone": zone,
        "capacityType": capacity,
        "blocked": "yes" if attributes.get(names.BLOCKED.name) else "",
        "expires": format_instant(expires) if isinstance(expires, datetime) else "",
        "reason": str(attributes.get(names.REASON.name, "")),
    }
