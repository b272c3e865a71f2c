"""``tenon teardown``: ends all that Tenon has bought and made for a cluster, after it has shown what that is.

The command starts a workflow, which goes on without it. The cluster's worker carries it out. If there is none any more,
because the cluster is gone, the command carries it out itself with the AWS credentials of its environment.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
)
from temporalio.common import (
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.service import RPCError, RPCStatusCode

from activities.clock import utc_now
from activities.ec2.client import Ec2
from activities.ec2.errors import EC2Error
from activities.ec2.provider import Ec2Provider
from cli.actor import user_of_command
from cli.application import create_app, examples
from cli.console import output_console
from cli.context import ContextError, resolve, worker_of_sandbox
from cli.nodes.control import Reason, Ticket
from cli.nodes.requests import asked_reason, is_interactive
from tenon.ec2.families.cluster import Cluster
from tenon.errors import TenonError
from tenon.messages.teardown import Survey, TeardownInput, TeardownReport
from tenon.money import per_hour
from tenon.sentences import counted
from tenon.teardown import page, report
from tenon.teardown.rounds import INSTANCE
from worker.runtime.assembly import region_of_environment
from worker.runtime.search_attributes import ensure_search_attributes
from worker.runtime.teardown_worker import teardown_queue, teardown_worker
from worker.runtime.temporal_client import TemporalError, connect
from worker.settings import SettingsError, parse_duration
from workflows import names
from workflows.teardown import TeardownWorkflow

app = create_app()

LIVE_WITHIN = timedelta(seconds=90)
"""A worker polls at least once a minute, so one that has not polled for so long is gone."""
FOLLOW_SECONDS = 2.0
QUERY_TIMEOUT = timedelta(seconds=5)
SURVEY_WITHIN = 180.0
"""Seconds to wait for the dry run."""
LISTED = 30
"""How many things of a kind a terminal shows."""
LEFT, REFUSED = 1, 2
"""Exit status: something is left; the teardown was not carried out."""
MAX_DRAIN = timedelta(hours=24)
RUNNING_WHY = (
    "and would buy again what ends here: leave out --local-worker, stop that worker first, or add --ignore-worker if "
    "it is cut off from the API server"
)


class TeardownError(TenonError):
    """The teardown cannot be carried out. The message is one sentence."""


@app.command(
    epilog=examples(
        "tenon teardown prod --dry-run",
        "tenon teardown prod --reason 'moved to prod-2' --report prod.md",
        "tenon teardown prod --local-worker    # the cluster and its worker are gone",
    )
)
def teardown(
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER", help="The name of the cluster that ends.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would end, and do nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for the cluster's name again.")] = False,
    reason: Reason = None,
    ticket: Ticket = "",
    local_worker: Annotated[
        bool,
        typer.Option(
            "--local-worker",
            help="Carry it out in this command, with its AWS credentials, from EC2's tags alone: "
            "for a cluster whose API server or worker is gone.",
        ),
    ] = False,
    ignore_worker: Annotated[
        bool,
        typer.Option(
            "--ignore-worker",
            help="With --local-worker, although a worker of the cluster runs: one that is cut off from the API server "
            "buys nothing.",
        ),
    ] = False,
    drain_timeout: Annotated[
        str,
        typer.Option(
            "--drain-timeout",
            metavar="DURATION",
            help="How long PodDisruptionBudgets hold, at most 24h. Then pods are deleted.",
        ),
    ] = "15m",
    force: Annotated[bool, typer.Option("--force", help="Delete pods at once, even protected ones.")] = False,
    report_file: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE", help="Write the report there: as JSON if it ends in .json."),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Follow it until it ends.")] = True,
    output: Annotated[Literal["table", "json"], typer.Option("--output", "-o", help="table or json.")] = "table",
) -> None:
    """End all that Tenon has bought and made for a cluster.

    It shows what that is first, and asks. A workflow does it, which goes on if this command is stopped: run the command
    again to follow it. The exit status is 1 if something is left.
    """
    if local_worker and not wait:
        print("--no-wait does not go with --local-worker: the teardown ends with this command.", file=sys.stderr)
        raise typer.Exit(REFUSED)
    try:
        drain_seconds = 0.0 if force else parse_duration(drain_timeout).total_seconds()
        if not 0 <= drain_seconds <= MAX_DRAIN.total_seconds():
            raise ValueError(f"--drain-timeout {drain_timeout} is not between 0s and 24h.")
    except ValueError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(REFUSED) from None
    try:
        ended = asyncio.run(
            _tear_down(
                cluster,
                dry_run=dry_run,
                yes=yes,
                reason=reason,
                ticket=ticket,
                is_local=local_worker,
                ignore_worker=ignore_worker,
                drain_seconds=drain_seconds,
                wait=wait,
                output=output,
            )
        )
    except (TeardownError, ContextError, TemporalError, SettingsError, EC2Error) as error:
        print(error, file=sys.stderr)
        raise typer.Exit(REFUSED) from None
    except RPCError as error:
        print(f"Temporal refused: {error.message}.", file=sys.stderr)
        raise typer.Exit(REFUSED) from None
    if ended is None:
        return
    if report_file is not None:
        _write(ended, report_file)
    if output == "json":
        print(ended.model_dump_json(indent=2))
    elif not ended.dry_run:
        output_console().print(report.markdown(ended), markup=False, highlight=False, soft_wrap=True)
    if ended.leftovers and not ended.dry_run:
        raise typer.Exit(LEFT)


async def _tear_down(
    cluster: str,
    *,
    dry_run: bool,
    yes: bool,
    reason: str | None,
    ticket: str,
    is_local: bool,
    ignore_worker: bool,
    drain_seconds: float,
    wait: bool,
    output: str,
) -> TeardownReport | None:
    """Carry the command out. Return the report; None if the teardown goes on without the command."""
    _check_environment(cluster)
    if is_local and (sandbox := worker_of_sandbox()) is not None and sandbox.cluster == cluster:
        sandbox.apply()
    resolve(cluster).apply()
    client = await connect()
    async with _served(client, cluster, is_local=is_local, ignore_worker=ignore_worker):
        handle = client.get_workflow_handle_for(TeardownWorkflow.run, names.teardown_id(cluster))
        if not dry_run and await _is_open(handle):
            print(f"A teardown of cluster {cluster} is under way already, and goes on.", file=sys.stderr)
            return await _followed(handle, output) if wait else None
        planned = await _survey(client, cluster)
        if output == "table":
            _print_survey(cluster, planned.survey)
        if dry_run:
            return planned
        _confirm(cluster, yes=yes)
        begin = page.first_input(
            cluster,
            by=await user_of_command("tenon teardown"),
            reason=asked_reason(reason),
            ticket=ticket,
            tags_only=is_local,
            drain_seconds=drain_seconds,
        )
        handle = await _start(client, begin)
        if not wait:
            print(f"The teardown goes on: follow it with `tenon teardown {cluster}`, or as workflow {handle.id}.")
            return None
        return await _followed(handle, output)


def _check_environment(cluster: str) -> None:
    """Refuse a name that differs from the one in the environment, which is probably a slip.

    Raises:
        TeardownError: the names differ.
    """
    other = os.environ.get("CLUSTER_NAME", cluster)
    if other != cluster:
        raise TeardownError(
            f"CLUSTER_NAME is {other}, but the command names cluster {cluster}: unset the variable if {cluster} ends."
        )


@asynccontextmanager
async def _served(client: Client, cluster: str, *, is_local: bool, ignore_worker: bool) -> AsyncIterator[None]:
    """Make sure that a worker carries the teardown out: the cluster's, or one in this process.

    Raises:
        TeardownError: the cluster has no worker, or has one although the command should be it.
    """
    if not is_local:
        if not await is_polled(client, teardown_queue(cluster)):
            raise TeardownError(
                f"No worker of cluster {cluster} polls Temporal: check the name, start the worker, "
                "or carry the teardown out here with --local-worker."
            )
        yield
        return
    if not ignore_worker and await is_polled(client, names.task_queue(cluster)):
        raise TeardownError(f"A worker of cluster {cluster} polls Temporal, {RUNNING_WHY}.")
    await ensure_search_attributes(client)
    aws = await asyncio.to_thread(Ec2, await asyncio.to_thread(region_of_environment))
    ec2 = Ec2Provider(aws, Cluster(name=cluster, region=aws.region))
    print(f"This command carries the teardown out, from EC2's tags in {aws.region} alone.", file=sys.stderr)
    async with teardown_worker(client, cluster, ec2):
        yield


async def is_polled(client: Client, queue: str) -> bool:
    """Whether a worker that lives polls the task queue."""
    answer = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=client.namespace,
            task_queue=TaskQueue(name=queue),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        )
    )
    since = utc_now() - LIVE_WITHIN
    return any(poller.last_access_time.ToDatetime(UTC) >= since for poller in answer.pollers)


async def _is_open(handle: WorkflowHandle[Any, Any]) -> bool:
    try:
        return (await handle.describe()).status is WorkflowExecutionStatus.RUNNING
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return False


async def _survey(client: Client, cluster: str) -> TeardownReport:
    """What the cluster has, as a dry run says it.

    Raises:
        TeardownError: AWS refuses to tell, or the worker does not answer.
    """
    handle = await _start(client, page.first_input(cluster, dry_run=True))
    try:
        async with asyncio.timeout(SURVEY_WITHIN):
            return await handle.result()
    except WorkflowFailureError as error:
        raise TeardownError(f"What cluster {cluster} has cannot be looked up: {_cause(error)}.") from None
    except TimeoutError:
        raise TeardownError(
            f"The worker did not say within {SURVEY_WITHIN:.0f} s what cluster {cluster} has: see workflow {handle.id}."
        ) from None


async def _start(client: Client, begin: TeardownInput) -> WorkflowHandle[TeardownWorkflow, TeardownReport]:
    """Start the workflow, or take the one that runs."""
    return await client.start_workflow(
        TeardownWorkflow.run,
        begin,
        id=names.teardown_id(begin.cluster, dry_run=begin.dry_run),
        task_queue=teardown_queue(begin.cluster),
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
        search_attributes=TypedSearchAttributes([SearchAttributePair(names.CLUSTER, begin.cluster)]),
        static_summary=page.static_summary(begin),
        static_details=page.ABOUT,
    )


async def _followed(handle: WorkflowHandle[TeardownWorkflow, TeardownReport], output: str) -> TeardownReport:
    """Print what happens until the teardown has ended.

    Raises:
        TeardownError: it failed, or somebody ended its workflow.
    """
    shown = datetime.min.replace(tzinfo=UTC)
    result = asyncio.ensure_future(handle.result())
    try:
        while not (await asyncio.wait({result}, timeout=FOLLOW_SECONDS))[0]:
            shown = await _show_progress(handle, shown, output)
        ended = await result
    except WorkflowFailureError as error:
        raise TeardownError(f"The teardown did not end: {_cause(error)}. Run the command again to go on.") from None
    finally:
        result.cancel()
    return ended


async def _show_progress(
    handle: WorkflowHandle[TeardownWorkflow, TeardownReport], shown: datetime, output: str
) -> datetime:
    """Print the new lines of the timeline, and return the time of the last one."""
    try:
        progress = await handle.query(TeardownWorkflow.progress, rpc_timeout=QUERY_TIMEOUT)
    except (WorkflowQueryFailedError, RPCError):
        return shown  # no worker answers for a moment; the workflow waits for it
    lines = [line for line in progress.timeline if line.at > shown]
    for line in lines:
        print(f"{line.at:%H:%M:%S}  {line.text}", file=sys.stderr if output == "json" else sys.stdout, flush=True)
    return lines[-1].at if lines else shown


def _cause(error: WorkflowFailureError) -> str:
    """The innermost message of a failure."""
    cause: BaseException = error
    while (inner := getattr(cause, "cause", None)) is not None:
        cause = inner
    return str(cause).rstrip(".")


def _confirm(cluster: str, *, yes: bool) -> None:
    """Ask for the cluster's name.

    Raises:
        TeardownError: it was not typed, or nobody is there to type it.
    """
    if yes:
        return
    if not is_interactive():
        raise TeardownError("Nothing was ended: add --yes, because nobody is at a terminal to confirm it.")
    typed = typer.prompt(f"Type the name of the cluster to end all this ({cluster})", default="", show_default=False)
    if typed != cluster:
        raise TeardownError(f"Nothing was ended: {typed!r} is not {cluster!r}.")


def _print_survey(cluster: str, survey: Survey) -> None:
    console = output_console()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("kind", "name", "what it is", "$/h"):
        table.add_column(title, justify="right" if title == "$/h" else "left", overflow="fold")
    most = LISTED if console.is_terminal else max(survey.instance_count, survey.template_count, survey.profile_count)
    for instance in survey.instances[:most]:
        price = f"{instance.price:.4f}" if instance.price else "-"
        table.add_row(INSTANCE, instance.id, escape(_about(instance)), price)
    for template in survey.templates[:most]:
        table.add_row(report.TEMPLATE, escape(template.name), "", "")
    for profile in survey.profiles[:most]:
        table.add_row(report.PROFILE, escape(profile.name), f"roles {', '.join(profile.roles)}", "")
    if table.row_count:
        console.print(table)
    _print_totals(console, cluster, survey)


def _about(instance: Any) -> str:
    parts = [instance.instance_type, instance.capacity_type, instance.zone]
    return " ".join([*parts, f"NodePool {instance.pool}", instance.claim])


def _print_totals(console: Console, cluster: str, survey: Survey) -> None:
    counts = [
        counted(survey.instance_count, INSTANCE),
        counted(survey.template_count, report.TEMPLATE),
        counted(survey.profile_count, report.PROFILE),
    ]
    unpriced = f", and {counted(survey.unpriced, 'instance')} without a known price" if survey.unpriced else ""
    console.print(
        escape(f"Cluster {cluster} in {survey.region}: {', '.join(counts)}; {per_hour(survey.price)}{unpriced}"),
        highlight=False,
        soft_wrap=True,
    )
    for item in survey.stays:
        console.print(escape(f"stays: {item.kind} {item.name}: {item.why}"), highlight=False, soft_wrap=True)


def _write(ended: TeardownReport, path: Path) -> None:
    text = json.dumps(ended.model_dump(mode="json"), indent=2) if path.suffix == ".json" else report.markdown(ended)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        print(f"The report cannot be written to {path}: {error.strerror}.", file=sys.stderr)
