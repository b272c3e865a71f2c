"""Workflow ids, task queue names and search attributes, which operators type and filter by."""

from __future__ import annotations

from temporalio.common import SearchAttributeKey

from tenon.node import ids
from tenon.node.ids import (
    REBOOT_UPDATE,
    UID_MEMO,
    blocked_nodeclaims_query,
    command_id,
    nodeclaim_id,
    open_nodeclaims_query,
)

__all__ = [
    "REBOOT_UPDATE",
    "SEARCH_ATTRIBUTES",
    "UID_MEMO",
    "blocked_nodeclaims_query",
    "command_id",
    "disruption_id",
    "lane_queue",
    "leader_queue",
    "node_schedule_id",
    "node_schedules_prefix",
    "nodeclaim_id",
    "nodeclass_id",
    "open_nodeclaims_query",
    "plan_queue",
    "provisioner_id",
    "rollout_id",
    "task_queue",
    "teardown_id",
]

CLUSTER = SearchAttributeKey.for_keyword(ids.CLUSTER_ATTRIBUTE)
POOL = SearchAttributeKey.for_keyword(ids.POOL_ATTRIBUTE)
STAGE = SearchAttributeKey.for_keyword(ids.STAGE_ATTRIBUTE)
INSTANCE_TYPE = SearchAttributeKey.for_keyword("TenonInstanceType")
ZONE = SearchAttributeKey.for_keyword("TenonZone")
CAPACITY_TYPE = SearchAttributeKey.for_keyword("TenonCapacityType")
BLOCKED = SearchAttributeKey.for_bool(ids.BLOCKED_ATTRIBUTE)
EXPIRES = SearchAttributeKey.for_datetime("TenonExpires")
NODE = SearchAttributeKey.for_keyword("TenonNode")
INSTANCE = SearchAttributeKey.for_keyword("TenonInstance")
REASON = SearchAttributeKey.for_keyword("TenonReason")
"""Why a node leaves or has left, or why a disruption command removes nodes."""
COMMAND_NODES = SearchAttributeKey.for_keyword_list("TenonCommandNodes")
"""The NodeClaims of a disruption command and their Nodes, and the NodeClaims that replace them."""
PRICE = SearchAttributeKey.for_float("TenonPrice")
"""Dollars an hour of a node's instance."""
SAVING = SearchAttributeKey.for_float("TenonSaving")
"""Dollars an hour that a disruption command saves: as predicted; as reached once that is known. 0 if no node left."""

SEARCH_ATTRIBUTES = (
    CLUSTER,
    POOL,
    STAGE,
    NODE,
    INSTANCE,
    INSTANCE_TYPE,
    ZONE,
    CAPACITY_TYPE,
    REASON,
    BLOCKED,
    EXPIRES,
    COMMAND_NODES,
    PRICE,
    SAVING,
)
"""Temporal's server on a SQL database has room for ten keywords and three of each other type in a namespace."""


def provisioner_id(cluster: str) -> str:
    """The id of the workflow that batches and plans pending pods."""
    return f"provisioner/{cluster}"


def disruption_id(cluster: str) -> str:
    """The id of the workflow that decides which nodes to disrupt."""
    return f"disruption/{cluster}"


def nodeclass_id(cluster: str, name: str) -> str:
    """The id of the workflow that keeps one EC2NodeClass resolved."""
    return f"nodeclass/{cluster}/{name}"


def teardown_id(cluster: str, *, dry_run: bool = False) -> str:
    """The id of the workflow that ends all that a cluster has, or that only says what it would end."""
    return f"teardown-dry-run/{cluster}" if dry_run else f"teardown/{cluster}"


def rollout_id(cluster: str, name: str) -> str:
    """The id of the workflow of one NodeRollout."""
    return f"rollout/{cluster}/{name}"


def node_schedule_id(cluster: str, name: str) -> str:
    """The id of the Temporal Schedule of one NodeSchedule, and of its workflows, which have the time behind it."""
    return f"{node_schedules_prefix(cluster)}{name}"


def node_schedules_prefix(cluster: str) -> str:
    """What the ids of all Temporal Schedules of NodeSchedules begin with."""
    return f"node-schedule/{cluster}/"


def task_queue(cluster: str) -> str:
    """The queue of workflows, EC2 calls and Kubernetes writes. Every replica serves it."""
    return f"tenon-{cluster}"


def lane_queue(queue: str, lane: str) -> str:
    """The queue of a lane, which has its own worker slots. If ``lane`` is empty, ``queue`` itself."""
    return f"{queue}-{lane}" if lane else queue


def plan_queue(cluster: str) -> str:
    """The queue of planner calls, which need the cluster cache, from workflows that know no leader yet.

    Each leader serves it.
    """
    return f"tenon-{cluster}-plan"


def leader_queue(cluster: str, leader: str) -> str:
    """The queue of planner calls that only this leader serves.

    Temporal may still hold open polls of a dead leader; none of those polls this queue.
    """
    return f"{plan_queue(cluster)}-{leader}"
