"""Starts the workflows of one cluster. A workflow that is already open is left alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from temporalio.client import Client
from temporalio.common import (
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)

from workflows import names

ANSWER_WITHIN = timedelta(seconds=10)
"""Timeout of a call to Temporal."""


async def start(
    client: Client,
    cluster: str,
    run: Any,
    workflow_input: Any,
    workflow_id: str,
    *,
    summary: str,
    details: str,
    attributes: Iterable[SearchAttributePair[Any]] = (),
    memo: Mapping[str, Any] | None = None,
    reuse: WorkflowIDReusePolicy = WorkflowIDReusePolicy.ALLOW_DUPLICATE,
) -> None:
    """Start a workflow.

    Raises:
        RPCError: Temporal did not accept it.
    """
    pairs = [SearchAttributePair(names.CLUSTER, cluster), *attributes]
    await client.start_workflow(
        run,
        workflow_input,
        id=workflow_id,
        task_queue=names.task_queue(cluster),
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        id_reuse_policy=reuse,
        search_attributes=TypedSearchAttributes(pairs),
        static_summary=summary,
        static_details=details,
        memo=memo,
        rpc_timeout=ANSWER_WITHIN,
    )
