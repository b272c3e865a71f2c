"""Reads how far rollouts are: from the status of NodeRollouts, and with waves and evidence from their workflows.

The status is enough for what happens now, so an operator sees it while Temporal is away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from temporalio.client import WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import NotFoundError
from activities.kubernetes.resources import NODEPOOLS, NODEROLLOUTS
from cli.connection import connected as connected_to_kubernetes
from cli.context import ContextError
from cli.nodes.workflows import NodeError, connected, refused
from cli.rollout_status import PoolView, RolloutStatus, read_rollout_status
from tenon.apis.managed import manages_pool
from tenon.messages.rollout import PoolProgress
from tenon.rollout.versions import rollouts_by_pool
from worker.runtime.temporal.encrypted_payloads import PayloadCodecError
from worker.runtime.temporal.temporal_client import TemporalError
from workflows import names
from workflows.rollout import RolloutWorkflow

QUERY_TIMEOUT = timedelta(seconds=5)


async def read_rollouts() -> list[RolloutStatus]:
    """Return all NodeRollouts by name, as their status describes them.

    Raises:
        ApiError, ConfigError, NodeError: the API server does not answer, or has no NodeRollouts.
    """
    kube = await connected_to_kubernetes()
    try:
        bodies = await _bodies(kube)
    finally:
        await kube.close()
    return sorted((read_rollout_status(body) for body in bodies), key=lambda rollout: rollout.name)


async def read_rollout(name: str, cluster: str | None) -> RolloutStatus:
    """Return a NodeRollout with its waves, if its workflow answers.

    Raises:
        ApiError, ConfigError, NodeError: the API server does not answer, or has no such NodeRollout.
    """
    rollout = next((rollout for rollout in await read_rollouts() if rollout.name == name), None)
    if rollout is None:
        raise NodeError(f"There is no NodeRollout {name}: `tenon rollout list` shows all.")
    try:
        pools = await _progress(name, cluster)
    except (NodeError, TemporalError, ContextError, PayloadCodecError) as error:
        return RolloutStatus(name, rollout.spec, rollout.spec_problem, rollout.pools, str(error))
    views = [_of_progress(progress) for progress in pools]
    return RolloutStatus(name, rollout.spec, rollout.spec_problem, views or rollout.pools)


async def rollout_of_pool(pool: str) -> str:
    """Return the name of the NodeRollout that governs a NodePool.

    Raises:
        ApiError, ConfigError, NodeError: the API server does not answer, or no NodeRollout governs the NodePool.
    """
    kube = await connected_to_kubernetes()
    try:
        body = next((body for body in await kube.list(NODEPOOLS) if body["metadata"]["name"] == pool), None)
        if body is None:
            raise NodeError(f"There is no NodePool {pool}.")
        if not manages_pool(body):
            raise NodeError(f"Tenon does not manage NodePool {pool}: its nodeClassRef names no EC2NodeClass.")
        pool_labels = (body.get("metadata") or {}).get("labels") or {}
        rollout = rollouts_by_pool(await _bodies(kube), {pool: pool_labels}).get(pool)
    finally:
        await kube.close()
    if rollout is None:
        raise NodeError(
            f"No NodeRollout governs NodePool {pool}: apply one whose nodePoolSelector matches its labels, "
            "or one without a nodePoolSelector."
        )
    return rollout.rollout


async def _bodies(kube: Kube) -> Sequence[Mapping[str, Any]]:
    try:
        return await kube.list(NODEROLLOUTS)
    except NotFoundError:
        raise NodeError(
            "The API server does not serve noderollouts.tenon.sh: apply its CustomResourceDefinition."
        ) from None


async def _progress(name: str, cluster: str | None) -> list[PoolProgress]:
    """Ask the workflow.

    Raises:
        NodeError, TemporalError, ContextError, PayloadCodecError: it does not answer.
    """
    context, client = await connected(cluster)
    handle = client.get_workflow_handle_for(RolloutWorkflow.run, names.rollout_id(context.cluster, name))
    try:
        return await handle.query(RolloutWorkflow.progress, rpc_timeout=QUERY_TIMEOUT)
    except WorkflowQueryFailedError as error:
        raise NodeError(f"Workflow {handle.id} does not answer: {error}.") from None
    except RPCError as error:
        raise NodeError(unanswered(error, name)) from None


def unanswered(error: RPCError, name: str) -> str:
    """Return why the workflow of a NodeRollout does not answer, as a sentence."""
    if error.status is RPCStatusCode.NOT_FOUND:
        return f"No workflow of NodeRollout {name} is running: a worker with its CustomResourceDefinition starts it."
    if error.status in (RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED):
        return "No worker answers: try again when one runs."
    return refused(error)


def _of_progress(progress: PoolProgress) -> PoolView:
    return PoolView(
        pool=progress.pool,
        phase=progress.phase,
        current=progress.current,
        target=progress.target,
        wave=progress.wave + 1 if progress.wave is not None else None,
        message=progress.message,
        cause=progress.cause,
        operations=progress.operations,
        segment=progress.segment,
        began=progress.began,
        held_nodes=progress.held_nodes,
        waves=progress.history,
    )
