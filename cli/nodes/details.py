"""What ``tenon node show`` reads of a node: from its workflow, from events, and from where Temporal's UI is."""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass
from typing import Any

from temporalio.client import Client, WorkflowHandle, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from activities.clock import utc_now
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ConfigError
from activities.kubernetes.resources import EVENTS
from cli.context import Context
from cli.nodes.workflows import NodeError, claim_of, connected, newest_of, not_found
from cli.temporal_ui import NoUiError, ui_of
from tenon.node.state import NodeState
from tenon.node.stays import stays
from workflows import names
from workflows.nodeclaim import NodeClaimWorkflow


@dataclass(frozen=True, slots=True)
class NodeDetails:
    """A node, as far as it is known."""

    state: NodeState
    why_it_stays: str = ""
    """What events say keeps a node that should be disrupted."""
    page: str = ""
    """The link of its page in Temporal's UI."""


async def read_details(name: str, cluster: str | None, *, with_texts: bool) -> NodeDetails:
    """Read the state of a node from its workflow, also after its end. ``with_texts``: for people, not for scripts.

    Raises:
        NodeError: no workflow of this node can be asked.
    """
    context, client = await connected(cluster)
    handle = client.get_workflow_handle(names.nodeclaim_id(context.cluster, await claim_of(name)))
    try:
        try:
            state = await handle.query(NodeClaimWorkflow.status)
        except RPCError as error:
            ended = await newest_of(name, cluster) if error.status is RPCStatusCode.NOT_FOUND else None
            if ended is None:
                raise
            handle = ended
            state = await handle.query(NodeClaimWorkflow.status)
    except (WorkflowQueryFailedError, RPCError) as error:
        raise NodeError(not_found(handle, error)) from None
    if not with_texts:
        return NodeDetails(state)
    return NodeDetails(state, await _why_it_stays(state), await _page_of(context, client, handle))


async def _page_of(context: Context, client: Client, handle: WorkflowHandle[Any, Any]) -> str:
    """Return the link of the workflow's page in Temporal's UI; empty if nothing says where the UI is."""
    url = os.environ.get("TEMPORAL_UI_URL") or context.environment.get("TEMPORAL_UI_URL")
    with contextlib.suppress(NoUiError, RPCError):
        pages = ui_of(client, url)
        return pages.workflow(handle.id, (await handle.describe()).run_id)
    return ""


async def _why_it_stays(state: NodeState) -> str:
    """Return what events say keeps a node that should be disrupted; empty if none does or no one answers."""
    if state.stage.leaving:
        return ""
    try:
        kube = await Kube.connect()
    except ConfigError:
        return ""
    try:
        about = f"involvedObject.kind=NodeClaim,involvedObject.name={state.claim.name}"
        return stays(await kube.list(EVENTS, field_selector=about), utc_now())
    except ApiError as error:
        print(f"The events of {state.claim.name} cannot be read: {error}", file=sys.stderr)
        return ""
    finally:
        await kube.close()
