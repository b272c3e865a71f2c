"""``tenon approve``: approves disruption commands that wait for a person."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any

import typer
from temporalio.client import WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.service import RPCError, RPCStatusCode

from cli.actor import user_of_command
from cli.application import create_app, examples
from cli.context import ContextError
from cli.nodes.requests import ANSWERED_WITHIN, COMMAND_TIMELINE, asked_reason
from cli.nodes.workflows import NodeError, connected, refused, run
from cli.options import Cluster, Ticket
from tenon.messages.command_approval import Refusal
from tenon.messages.node import Operator, OperatorAnswer
from tenon.node.ids import COMMAND_WORKFLOW, workflows_query
from worker.runtime.temporal.encrypted_payloads import PayloadCodecError
from worker.runtime.temporal.temporal_client import TemporalError
from workflows import names
from workflows.disruption_command import DisruptionCommandWorkflow

app = create_app()

APPROVED = "approved. It is validated again first, and ends without touching anything if it does not hold any more."
COMPLETED_WITHIN = 5.0
"""Seconds that Temporal has to name the commands under way to a shell."""


def command_ids(incomplete: str) -> list[str]:
    """Return the IDs of the commands under way, for a shell."""

    async def ids() -> list[str]:
        context, client = await connected(os.environ.get("CLUSTER_NAME"))
        query = f"{workflows_query(context.cluster, COMMAND_WORKFLOW)} AND ExecutionStatus = 'Running'"
        running = client.list_workflows(query, limit=100)
        return sorted([execution.id.rsplit("/", 1)[-1] async for execution in running])

    try:
        known_ids = asyncio.run(asyncio.wait_for(ids(), COMPLETED_WITHIN))
    except (TimeoutError, ContextError, TemporalError, PayloadCodecError, RPCError):
        return []
    return [ident for ident in known_ids if ident.startswith(incomplete)]


Ids = Annotated[
    list[str],
    typer.Argument(metavar="ID", help="Commands, as `tenon disruptions` shows them.", autocompletion=command_ids),
]
By = Annotated[str, typer.Option("--by", metavar="NAME", help="Who answers. Default: your user of Kubernetes.")]
Why = Annotated[
    str | None,
    typer.Option("--reason", metavar="TEXT", help="Why, for the timeline. A terminal is asked if it is missing."),
]


@app.command(
    epilog=examples(
        "tenon approve drifted-7f3a0c21b9de --reason 'seen in staging'",
        "tenon approve drifted-7f3a0c21b9de --by ann --ticket OPS-12 --reason AMI",
    )
)
def approve(ids: Ids, by: By = "", reason: Why = None, ticket: Ticket = "", cluster: Cluster = None) -> None:
    """Approve commands that wait for it: each is validated again, and its nodes leave within the budgets.

    A command that does not hold any more, such as after a pod came to its nodes, ends without touching anything.
    """
    why = asked_reason(reason, COMMAND_TIMELINE)

    def operator(name: str) -> Operator:
        return Operator(by=by or name, reason=why, ticket=ticket)

    run(answer_all(ids, DisruptionCommandWorkflow.approve, operator, APPROVED, "tenon approve", cluster))


async def answer_all(
    ids: Sequence[str], update: Any, operator_of: Any, done: str, program: str, cluster: str | None
) -> None:
    """Send an answer to each command. One that does not take it does not keep the others from theirs.

    Args:
        ids: the commands.
        update: the update that answers.
        operator_of: returns its input for the name of the user.
        done: what has become of a command that takes the answer.
        program: what the user called, for the timeline.
        cluster: the cluster, if the user names it.

    Raises:
        NodeError: a command does not take the answer.
    """
    context, client = await connected(cluster)
    operator: Operator | Refusal = operator_of(await user_of_command(program))
    failures: list[str] = []
    for ident in ids:
        handle = client.get_workflow_handle(names.command_id(context.cluster, ident))
        try:
            answer: OperatorAnswer = await handle.execute_update(
                update, operator, rpc_timeout=ANSWERED_WITHIN, result_type=OperatorAnswer
            )
        except WorkflowUpdateRPCTimeoutOrCancelledError:
            seconds = ANSWERED_WITHIN / timedelta(seconds=1)
            failures.append(f"{ident}: no worker answered within {seconds:.0f}s. Try again when one runs.")
        except WorkflowUpdateFailedError as error:
            failures.append(f"{ident} refuses: {error.cause}")
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                failures.append(f"No command {ident} is under way: `tenon disruptions` shows those that wait.")
            else:
                failures.append(refused(error))
        else:
            if answer.accepted:
                print(f"{ident}: {done}")
            else:
                failures.append(f"{ident} refuses: {answer.why}.")
    if failures:
        raise NodeError("\n".join(failures))
