"""Asks the provisioner's workflow of a cluster what EC2 and kube-scheduler refuse."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from datetime import timedelta
from typing import TypeVar

from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from tenon.errors import TenonError
from tenon.evolve import evolve
from tenon.messages.provisioning import LaunchReport, PendingPods, PurchasePause
from tenon.node.launch_breaker import is_open
from workflows import names
from workflows.provisioner import ProvisionerWorkflow

QUERY_TIMEOUT = timedelta(seconds=10)
T = TypeVar("T")


class RefusalsUnknownError(TenonError):
    """The provisioner's workflow does not answer. The message says why, without a period."""


async def refusals_of(client: Client, cluster: str, within: timedelta = QUERY_TIMEOUT) -> LaunchReport:
    """Return what EC2 refuses, or nothing if the cluster has no provisioner.

    Raises:
        RefusalsUnknownError: the workflow does not answer.
    """
    handle = client.get_workflow_handle(names.provisioner_id(cluster))
    answer = await _answer(handle.query(ProvisionerWorkflow.launches, rpc_timeout=within), "what EC2 refuses")
    if answer is None:
        return LaunchReport()
    return evolve(answer, breakers=[breaker for breaker in answer.breakers if is_open(breaker)])


async def purchase_pauses_of(client: Client, cluster: str) -> Sequence[PurchasePause]:
    """Return the pods for which no nodes are bought now, or none if the cluster has no provisioner.

    Raises:
        RefusalsUnknownError: the workflow does not answer.
    """
    handle = client.get_workflow_handle(names.provisioner_id(cluster))
    query = handle.query(ProvisionerWorkflow.purchase_pauses, rpc_timeout=QUERY_TIMEOUT)
    return await _answer(query, "for which pods it buys no nodes") or []


async def unplaced_pods_of(client: Client, cluster: str) -> Sequence[PendingPods]:
    """Return the pods for which no node is bought, as of the last plan; none if the cluster has no provisioner.

    Raises:
        RefusalsUnknownError: the workflow does not answer.
    """
    handle = client.get_workflow_handle(names.provisioner_id(cluster))
    query = handle.query(ProvisionerWorkflow.last, rpc_timeout=QUERY_TIMEOUT)
    plan = await _answer(query, "which pods it buys no node for")
    return [group for group in plan.pending if not group.has_place] if plan is not None else []


async def _answer(query: Awaitable[T], noun: str) -> T | None:
    try:
        return await query
    except WorkflowQueryFailedError as error:
        why = str(error)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        why = error.message
    raise RefusalsUnknownError(f"the provisioner's workflow does not say {noun}: {why}")
