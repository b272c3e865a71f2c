"""The ids of workflows, task queues, and the search attributes: what operators type and filter by."""

from __future__ import annotations

from temporalio.common import SearchAttributeKey

CLUSTER = SearchAttributeKey.for_keyword("TenonCluster")
POOL = SearchAttributeKey.for_keyword("TenonPool")
STAGE = SearchAttributeKey.for_keyword("TenonStage")
INSTANCE_TYPE = SearchAttributeKey.for_keyword("TenonInstanceType")
ZONE = SearchAttributeKey.for_keyword("TenonZone")
CAPACITY_TYPE = SearchAttributeKey.for_keyword("TenonCapacityType")
BLOCKED = SearchAttributeKey.for_bool("TenonBlocked")
EXPIRES = SearchAttributeKey.for_datetime("TenonExpires")

SEARCH_ATTRIBUTES = (CLUSTER, POOL, STAGE, INSTANCE_TYPE, ZONE, CAPACITY_TYPE, BLOCKED, EXPIRES)

UID_MEMO = "uid"
"""Under this name a node's workflow remembers which NodeClaim it is for, readable in a list of workflows."""


def open_nodeclaims_query(cluster: str) -> str:
    """Finds the open workflows of a cluster's nodes."""
    return f"{CLUSTER.name} = '{cluster}' AND WorkflowType = 'NodeClaim' AND ExecutionStatus = 'Running'"


def nodeclaim_id(cluster: str, claim: str) -> str:
    """The workflow of one node."""
    return f"nodeclaim/{cluster}/{claim}"


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


def plan_queue(cluster: str) -> str:
    """Decisions that need the cluster cache: only the replica that holds the Lease serves it."""
    return f"tenon-{cluster}-plan"
