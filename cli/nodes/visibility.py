"""Finds nodes by name in Temporal's visibility store, which also has those that are gone."""

from __future__ import annotations

from temporalio.client import Client

from tenon.kube.node_names import whole_name
from tenon.node.ids import NODECLAIM_WORKFLOW, nodeclaim_id, workflows_query
from workflows import names

MAX_WORKFLOWS = 100
"""How many workflows of Nodes whose names begin alike are listed."""


def of_node(cluster: str, name: str) -> str:
    """Return the condition of a query that finds a node by its NodeClaim, Node or instance."""
    return (
        f"WorkflowId = '{nodeclaim_id(cluster, name)}' "
        f"OR {names.NODE.name} = '{name}' OR {names.INSTANCE.name} = '{name}'"
    )


async def whole_name_in_temporal(client: Client, cluster: str, name: str) -> str:
    """Return the name of the Node, running or gone, that a name without its domain stands for.

    It is the name itself if that is a node's, or if no Node's name begins with it.

    Raises:
        AmbiguousNameError: it stands for several Nodes.
        RPCError: Temporal does not answer.
    """
    if not name or "'" in name or "/" in name:
        return name
    own = workflows_query(cluster, NODECLAIM_WORKFLOW)
    async for _ in client.list_workflows(f"{own} AND ({of_node(cluster, name)})", limit=1):
        return name
    begins = f"{own} AND {names.NODE.name} STARTS_WITH '{name}.'"
    executions = [execution async for execution in client.list_workflows(begins, limit=MAX_WORKFLOWS)]
    return whole_name(name, (execution.typed_search_attributes.get(names.NODE, "") for execution in executions))
