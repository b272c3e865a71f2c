"""``tenon teardown``: ends all that Tenon has bought and made for a cluster, after it has shown what that is.

The command starts a workflow, which goes on without it. The cluster's worker carries it out. If there is none any more,
because the cluster is gone, the command carries it out itself with the AWS credentials of its environment.
"""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer
from temporalio.client import WorkflowHandle
from temporalio.service import RPCError

from activities.ec2.errors import EC2Error
from cli.actor import user_of_command
from cli.application import create_app, examples
from cli.console import output_console
from cli.context import ContextError, resolve, worker_of_sandbox
from cli.nodes.control import Reason
from cli.nodes.requests import asked_reason, is_interactive
from cli.options import Output, Ticket
from cli.tearing_down import workflow
from cli.tearing_down.serving import served
from cli.tearing_down.survey_table import print_survey
from cli.tearing_down.workflow import TeardownError
from tenon.messages.teardown import TeardownReport
from tenon.teardown import page, report
from worker.runtime.temporal.encrypted_payloads import PayloadCodecError
from worker.runtime.temporal.temporal_client import TemporalError, connect
from worker.settings import SettingsError, parse_duration
from workflows import names
from workflows.teardown import TeardownWorkflow

app = create_app()

LEFT, REFUSED, UNREPORTED = 1, 2, 2
"""Exit status: something is left; the teardown was not carried out; it was, and its report was not written."""
MAX_DRAIN = timedelta(hours=24)


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
    output: Output = "table",
) -> None:
    """End all that Tenon has bought and made for a cluster.

    It shows what that is first, and asks. A workflow does it, which goes on if this command is stopped: run the command
    again to follow it. The exit status is 1 if something is left.
    """
    if local_worker and not wait:
        print("--no-wait does not go with --local-worker: the teardown ends with this command.", file=sys.stderr)
        raise typer.Exit(REFUSED)
    if ignore_worker and not local_worker:
        print("--ignore-worker goes with --local-worker only.", file=sys.stderr)
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
    except (TeardownError, ContextError, TemporalError, PayloadCodecError, SettingsError, EC2Error) as error:
        print(error, file=sys.stderr)
        raise typer.Exit(REFUSED) from None
    except RPCError as error:
        print(f"Temporal refused: {error.message}.", file=sys.stderr)
        raise typer.Exit(REFUSED) from None
    if ended is None:
        return
    text = report.markdown(ended, worker_runs=not local_worker)
    is_written = True
    if report_file is not None:
        is_written = _write(ended.model_dump_json(indent=2) if report_file.suffix == ".json" else text, report_file)
    if output == "json":
        print(ended.model_dump_json(indent=2))
    elif not ended.dry_run:
        output_console().print(text, markup=False, highlight=False, soft_wrap=True)
    if ended.leftovers and not ended.dry_run:
        raise typer.Exit(LEFT)
    if not is_written:
        raise typer.Exit(UNREPORTED)


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
    async with served(client, cluster, is_local=is_local, ignore_worker=ignore_worker):
        handle: WorkflowHandle[TeardownWorkflow, TeardownReport] = client.get_workflow_handle_for(
            TeardownWorkflow.run, names.teardown_id(cluster)
        )
        if not dry_run and await workflow.is_open(handle):
            print(
                f"A teardown of cluster {cluster} is under way already, and goes on as it began: "
                "--force, --drain-timeout, --reason and --ticket change nothing.",
                file=sys.stderr,
            )
            return await workflow.followed(handle, output) if wait else None
        planned = await workflow.survey(client, cluster)
        if output == "table":
            print_survey(cluster, planned.survey)
        if dry_run:
            return planned
        _confirm(cluster, yes=yes)
        begin = page.first_input(
            cluster,
            by=await user_of_command("tenon teardown"),
            reason=asked_reason(reason, "the timeline of the teardown"),
            ticket=ticket,
            tags_only=is_local,
            drain_seconds=drain_seconds,
        )
        handle = await workflow.start(client, begin)
        if not wait:
            print(f"The teardown goes on: follow it with `tenon teardown {cluster}`, or as workflow {handle.id}.")
            return None
        return await workflow.followed(handle, output)


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


def _confirm(cluster: str, *, yes: bool) -> None:
    """Ask for the cluster's name.

    Raises:
        TeardownError: it was not typed, or no one is there to type it.
    """
    if yes:
        return
    if not is_interactive():
        raise TeardownError("Nothing was ended: add --yes, because no one is at a terminal to confirm it.")
    typed = typer.prompt(f"Type the name of the cluster to end all this ({cluster})", default="", show_default=False)
    if typed != cluster:
        raise TeardownError(f"Nothing was ended: {typed!r} is not {cluster!r}.")


def _write(text: str, path: Path) -> bool:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        print(f"The report cannot be written to {path}: {error.strerror}.", file=sys.stderr)
        return False
    return True
