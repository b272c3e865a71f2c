"""IDs of the workflows of nodes and disruption commands, and names of what they show.

Activities need them too, and may not import `workflows.names`, which has those of all workflows.
"""

from __future__ import annotations

CLUSTER_ATTRIBUTE = "TenonCluster"
POOL_ATTRIBUTE = "TenonPool"
STAGE_ATTRIBUTE = "TenonStage"
BLOCKED_ATTRIBUTE = "TenonBlocked"
NODECLAIM_WORKFLOW = "NodeClaim"
COMMAND_WORKFLOW = "DisruptionCommand"
REBOOT_UPDATE = "reboot"
"""The update of a node's workflow that asks it to reboot the machine. It answers with a `RebootAnswer`."""
UID_MEMO = "uid"
"""The memo field that holds the UID of the workflow's NodeClaim, so that a list of workflows shows it."""


def nodeclaim_id(cluster: str, claim: str) -> str:
    """Return the workflow ID of a NodeClaim."""
    return f"nodeclaim/{cluster}/{claim}"


def command_id(cluster: str, command: str) -> str:
    """Return the workflow ID of a disruption command."""
    return f"disruption-command/{cluster}/{command}"


def workflows_query(cluster: str, workflow_type: str) -> str:
    """Return the visibility query for the workflows of one type of a cluster, open and ended."""
    return f"{CLUSTER_ATTRIBUTE} = '{cluster}' AND WorkflowType = '{workflow_type}'"


def open_nodeclaims_query(cluster: str) -> str:
    """Return the visibility query for the running NodeClaim workflows of a cluster."""
    return f"{workflows_query(cluster, NODECLAIM_WORKFLOW)} AND ExecutionStatus = 'Running'"


def blocked_nodeclaims_query(cluster: str) -> str:
    """Return the visibility query for those of them that are blocked and need an operator."""
    return f"{open_nodeclaims_query(cluster)} AND {BLOCKED_ATTRIBUTE} = true"
