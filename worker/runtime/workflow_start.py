"""Starts the workflows of one cluster; one that is open already is left as it is."""

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
"""A call to Temporal that is not answered for so long has failed."""


async def start(
    client: Client,
    cluster: str,
    run: Any,
    given: Any,
    workflow_id: str,
    *,
    summary: str,
    attributes: Iterable[SearchAttributePair[Any]] = (),
    memo: Mapping[str, Any] | None = None,
    reuse: WorkflowIDReusePolicy = WorkflowIDReusePolicy.ALLOW_DUPLICATE,
) -> None:
    """Start a workflow.

    Raises:
        RPCError: Temporal did not take it.
    """
    pairs = [SearchAttributePair(names.CLUSTER, cluster), *attributes]
    await client.start_workflow(
        run,
        given,
        id=workflow_id,
        task_queue=names.task_queue(cluster),
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        id_reuse_policy=reuse,
        search_attributes=TypedSearchAttributes(pairs),
        static_summary=summary,
        memo=memo,
        rpc_timeout=ANSWER_WITHIN,
    )
