"""The ids of workflows, task queues, and the search attributes: what operators type and filter by."""

from __future__ import annotations

from temporalio.common import SearchAttributeKey

from tenon.lifecycle import ids
from tenon.lifecycle.ids import UID_MEMO, nodeclaim_id, open_nodeclaims_query

__all__ = [
    "SEARCH_ATTRIBUTES",
    "UID_MEMO",
    "command_id",
    "disruption_id",
    "lane_queue",
    "leader_queue",
    "nodeclaim_id",
    "nodeclass_id",
    "open_nodeclaims_query",
    "plan_queue",
    "provisioner_id",
    "task_queue",
]

CLUSTER = SearchAttributeKey.for_keyword(ids.CLUSTER_ATTRIBUTE)
POOL = SearchAttributeKey.for_keyword(ids.POOL_ATTRIBUTE)
STAGE = SearchAttributeKey.for_keyword(ids.STAGE_ATTRIBUTE)
INSTANCE_TYPE = SearchAttributeKey.for_keyword("TenonInstanceType")
ZONE = SearchAttributeKey.for_keyword("TenonZone")
CAPACITY_TYPE = SearchAttributeKey.for_keyword("TenonCapacityType")
BLOCKED = SearchAttributeKey.for_bool(ids.BLOCKED_ATTRIBUTE)
EXPIRES = SearchAttributeKey.for_datetime("TenonExpires")

SEARCH_ATTRIBUTES = (CLUSTER, POOL, STAGE, INSTANCE_TYPE, ZONE, CAPACITY_TYPE, BLOCKED, EXPIRES)


def provisioner_id(cluster: str) -> str:
    """The workflow that batches and plans pending pods."""
    return f"provisioner/{cluster}"


def disruption_id(cluster: str) -> str:
    """The workflow that decides which nodes leave."""
    return f"disruption/{cluster}"


def command_id(cluster: str, command: str) -> str:
    """The workflow of one disruption command."""
    return f"disruption-command/{cluster}/{command}"


def nodeclass_id(cluster: str, name: str) -> str:
    """The workflow that keeps one EC2NodeClass resolved."""
    return f"nodeclass/{cluster}/{name}"


def task_queue(cluster: str) -> str:
    """Workflows, EC2 calls and Kubernetes writes: every replica serves it."""
    return f"tenon-{cluster}"


def lane_queue(queue: str, lane: str) -> str:
    """The part of a task queue that has slots of its own; without a lane the queue itself."""
    return f"{queue}-{lane}" if lane else queue


def plan_queue(cluster: str) -> str:
    """Decisions that need the cluster cache, asked by a workflow that knows no leader yet: each leader serves it."""
    return f"tenon-{cluster}-plan"


def leader_queue(cluster: str, leader: str) -> str:
    """The same decisions, of one leader only: nothing that Temporal still holds of a dead one polls it."""
    return f"{plan_queue(cluster)}-{leader}"
