"""Sends what an operator asks to the workflow of the NodeRollout that governs a NodePool."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from temporalio.client import WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.service import RPCError

from cli.actor import user_of_command
from cli.nodes import requests
from cli.nodes.workflows import NodeError, connected
from cli.rollout_view.reading import rollout_of_pool, unanswered
from tenon.evolve import evolve
from tenon.messages.rollout import RolloutAnswer, RolloutOperator
from workflows import names


async def ask(update: Any, operator: RolloutOperator, cluster: str | None) -> str:
    """Return the answer of the workflow to a request that it accepts.

    Args:
        update: the update that asks.
        operator: its input. Without a name in it, the user of this command asks.
        cluster: the cluster, if the user names it.

    Raises:
        NodeError: the workflow refuses or does not answer, or no NodeRollout governs the NodePool.
    """
    context, client = await connected(cluster)
    name = await rollout_of_pool(operator.pool)
    if not operator.by:
        operator = evolve(operator, by=await user_of_command("tenon rollout"))
    handle = client.get_workflow_handle(names.rollout_id(context.cluster, name))
    within = requests.ANSWERED_WITHIN
    try:
        answer: RolloutAnswer = await handle.execute_update(
            update, operator, rpc_timeout=within, result_type=RolloutAnswer
        )
    except WorkflowUpdateRPCTimeoutOrCancelledError:
        seconds = within / timedelta(seconds=1)
        raise NodeError(
            f"NodeRollout {name}: no worker answered within {seconds:.0f}s. Try again when one runs."
        ) from None
    except WorkflowUpdateFailedError as error:
        raise NodeError(f"NodeRollout {name} refuses: {error.cause}") from None
    except RPCError as error:
        raise NodeError(unanswered(error, name)) from None
    if not answer.accepted:
        raise NodeError(f"NodeRollout {name} refuses: {answer.message}.")
    return answer.message
