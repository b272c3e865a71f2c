"""How a node's workflow is called and found: the words that activities, workflows and worker must agree on."""

from __future__ import annotations

CLUSTER_ATTRIBUTE = "TenonCluster"
POOL_ATTRIBUTE = "TenonPool"
STAGE_ATTRIBUTE = "TenonStage"
BLOCKED_ATTRIBUTE = "TenonBlocked"
NODECLAIM_WORKFLOW = "NodeClaim"
UID_MEMO = "uid"
"""Under this name a node's workflow remembers which NodeClaim it is for, readable in a list of workflows."""


def nodeclaim_id(cluster: str, claim: str) -> str:
    """The workflow of one node."""
    return f"nodeclaim/{cluster}/{claim}"


def open_nodeclaims_query(cluster: str) -> str:
    """Finds the open workflows of a cluster's nodes."""
    return (
        f"{CLUSTER_ATTRIBUTE} = '{cluster}' AND WorkflowType = '{NODECLAIM_WORKFLOW}' AND ExecutionStatus = 'Running'"
    )
