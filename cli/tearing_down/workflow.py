"""The workflow of a teardown as the command sees it: whether it runs, its dry run, its start, and its end.

It goes on if the command is stopped, so each run of the command takes the one that runs.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

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

from cli.console import printable
from tenon.errors import TenonError
from tenon.messages.teardown import TeardownInput, TeardownReport
from tenon.teardown import page
from worker.runtime.temporal.teardown_worker import teardown_queue
from workflows import names
from workflows.teardown import TeardownWorkflow

FOLLOW_SECONDS = 2.0
QUERY_TIMEOUT = timedelta(seconds=5)
SURVEY_WITHIN = 180.0
"""Seconds to wait for the dry run."""


class TeardownError(TenonError):
    """The teardown cannot be carried out. The message is one sentence."""


async def is_open(handle: WorkflowHandle[Any, Any]) -> bool:
    """Whether a teardown of the cluster is under way."""
    try:
        return (await handle.describe()).status is WorkflowExecutionStatus.RUNNING
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return False


async def survey(client: Client, cluster: str) -> TeardownReport:
    """What the cluster has, as a dry run says it.

    Raises:
        TeardownError: AWS refuses to tell, or the worker does not answer.
    """
    handle = await start(client, page.first_input(cluster, dry_run=True))
    try:
        async with asyncio.timeout(SURVEY_WITHIN):
            return await handle.result()
    except WorkflowFailureError as error:
        raise TeardownError(f"What cluster {cluster} has cannot be looked up: {_cause(error)}.") from None
    except TimeoutError:
        raise TeardownError(
            f"The worker did not say within {SURVEY_WITHIN:.0f} s what cluster {cluster} has: see workflow {handle.id}."
        ) from None


async def start(client: Client, begin: TeardownInput) -> WorkflowHandle[TeardownWorkflow, TeardownReport]:
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


async def followed(handle: WorkflowHandle[TeardownWorkflow, TeardownReport], output: str) -> TeardownReport:
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
        print(
            f"{line.at:%H:%M:%S}  {printable(line.text)}",
            file=sys.stderr if output == "json" else sys.stdout,
            flush=True,
        )
    return lines[-1].at if lines else shown


def _cause(error: WorkflowFailureError) -> str:
    """The innermost message of a failure."""
    cause: BaseException = error
    while (inner := getattr(cause, "cause", None)) is not None:
        cause = inner
    return str(cause).rstrip(".")
