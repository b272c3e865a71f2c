"""Why a node was bought and which pods run there, as the Temporal UI and `tenon node show` say it."""

from __future__ import annotations

import asyncio
import contextlib

from temporalio.client import Client
from temporalio.service import RPCError

from sandbox.cluster import Sandbox
from tenon.node.state import NodeState
from tenon.node.timeline import details, pods_text
from tests.e2e.conftest import MakePool, Run
from tests.e2e.pools import ROOMY
from tests.workflows.waiting import until
from workflows import names
from workflows.nodeclaim import NodeClaimWorkflow


async def test_a_node_says_why_it_was_bought_and_which_pods_run_there(
    make_pool: MakePool, tenon: Run, client: Client, sandbox: Sandbox
) -> None:
    pool = await make_pool(consolidate_after="Never", requirements=ROOMY)
    await pool.deploy(1)
    await pool.running(1)  # a claim without an instance has no room for more than its own pods
    await pool.scale(3)
    await pool.running(3)
    (claim,) = await pool.settled(1)
    name = claim["metadata"]["name"]
    handle = client.get_workflow_handle_for(NodeClaimWorkflow.run, names.nodeclaim_id(sandbox.cluster_name, name))

    states: list[NodeState] = []

    async def counted() -> bool:
        with contextlib.suppress(RPCError):  # no worker answered in time
            states[:] = [await handle.query(NodeClaimWorkflow.status)]
        return any(state.stage == "live" for state in states)

    await until(counted)
    (state,) = states
    shown = details(state)
    print(shown)
    pods, types, choice, price = state.explanation
    assert pods.startswith(f"{state.planned_pods} pod")
    assert types.startswith("cheapest available types that fit: ")
    assert "the cheapest of" in choice
    assert price.startswith("planned price: $0.")
    assert pods_text(state) in shown
    assert state.planned_pods <= (state.running_pods or 0) <= 3
    listed = await asyncio.to_thread(tenon, "node", "list", COLUMNS="20")
    assert any(name in line and pool.name in line and "live" in line for line in listed.stdout.splitlines())
    text = " ".join((await asyncio.to_thread(tenon, "node", "show", name)).stdout.split())
    assert "Why this node was bought" in text
    print(listed.stdout)
