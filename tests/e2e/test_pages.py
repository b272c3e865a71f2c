"""What a stranger reads on the pages of the cluster's workflows, and in the commands that they name, is so now."""

from __future__ import annotations

import asyncio
import contextlib
import json
from functools import partial

from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import Client
from temporalio.service import RPCError

from activities.kubernetes.resources import NODEPOOLS
from sandbox.cluster import Sandbox
from tenon.messages.forecast import ForecastAnswer
from tests.e2e.conftest import MakePool, Run
from tests.e2e.pools import NAMESPACE, SMALL
from tests.workflows.waiting import until
from workflows import names

TITLES = ("NodePool", "namespace")
"""By what the page of the provisioner says the cluster's cost."""


async def page(client: Client, workflow: str) -> str:
    """What the page of a workflow says."""
    handle = client.get_workflow_handle(workflow)
    texts: list[str] = []

    async def is_answered() -> bool:
        with contextlib.suppress(RPCError):  # no worker answered in time
            metadata = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
            texts.append(str(metadata.current_details))
        return bool(texts)

    await until(is_answered)
    return texts[0]


async def test_a_command_is_foreseen_and_its_end_is_on_the_page_at_once(
    make_pool: MakePool, tenon: Run, client: Client, sandbox: Sandbox
) -> None:
    """The call of the planner goes on for minutes after the command."""
    pool = await make_pool(consolidate_after="10m", requirements=SMALL)  # it is foreseen until the test shortens it
    await pool.deploy(1)
    await pool.running(1)
    (claim,) = await pool.settled(1)
    name, node = claim["metadata"]["name"], claim["status"]["nodeName"]
    await pool.scale(0)

    async def is_foreseen() -> bool:
        done = await asyncio.to_thread(tenon, "explain", "node", node, "-o", "json")
        assert done.returncode == 0, done.stderr
        looks = json.loads(done.stdout)["forecast"]
        return any(node in entry["candidates"] for look in looks for entry in look["commands"])

    await until(is_foreseen)
    disruption = client.get_workflow_handle(names.disruption_id(sandbox.cluster_name))
    foreseen = await disruption.execute_update("forecast", result_type=ForecastAnswer)
    assert any("Empty: removes" in line and node in line for line in foreseen.forecast), foreseen.forecast
    assert "#### Forecast, as asked at" in await page(client, disruption.id)
    await pool.kube.patch(NODEPOOLS, pool.name, {"spec": {"disruption": {"consolidateAfter": "1s"}}})
    await pool.gone(name)
    query = f"WorkflowType = 'DisruptionCommand' AND {names.COMMAND_NODES.name} = '{name}'"

    async def is_over() -> bool:
        return [execution.id async for execution in client.list_workflows(query)] != [] and all(
            [execution.close_time is not None async for execution in client.list_workflows(query)]
        )

    await until(is_over)
    (command,) = [execution.id async for execution in client.list_workflows(query)]
    ident = command.rpartition("/")[2]

    async def says_the_end() -> bool:
        text = await page(client, names.disruption_id(sandbox.cluster_name))
        under_way = text.partition("#### Commands under way")[2].partition("####")[0]
        return f"`{ident}`" not in under_way and f"(workflow {command}): saves " in text

    await until(says_the_end)
    print(await page(client, names.disruption_id(sandbox.cluster_name)))


async def test_the_provisioner_says_what_the_cluster_costs_and_why_pods_wait(
    make_pool: MakePool, client: Client, sandbox: Sandbox
) -> None:
    pool = await make_pool(consolidate_after="Never", requirements=SMALL)
    await pool.deploy(1)
    await pool.running(1)
    await pool.settled(1)
    price = pool.instances()[0]["price"]
    number = 0

    async def is_measured() -> bool:
        """The leader looks each minute, also before the pod is on its new node, and says it with the next batch."""
        nonlocal number
        number += 1
        huge = await pool.pod(f"huge-{number}", containers=pool.pod_spec("4000")["containers"])
        key = f"{NAMESPACE}/{huge['metadata']['name']}"

        async def is_planned() -> bool:
            return key in await page(client, names.provisioner_id(sandbox.cluster_name))

        await until(is_planned)
        text = await page(client, names.provisioner_id(sandbox.cluster_name))
        await pool.delete_pod(f"huge-{number}")
        assert f"NodePool {pool.name}: needs 4000 CPU" in text
        pools, namespaces = (text.partition(f"by {title}, in USD/h: ")[2].partition("\n")[0] for title in TITLES)
        return f"{pool.name} {price:.4f}" in pools and f"{NAMESPACE} " in namespaces

    await until(is_measured)
    print(await page(client, names.provisioner_id(sandbox.cluster_name)))


async def test_a_claim_that_ec2_refused_was_created_and_not_bought(
    make_pool: MakePool, tenon: Run, sandbox: Sandbox
) -> None:
    pool = await make_pool(consolidate_after="Never", requirements=SMALL)
    ec2 = sandbox.ec2()
    ec2.fault("CreateFleet", "UnauthorizedOperation", status=403, count=None, value=pool.name)
    try:
        await pool.deploy(1)

        async def is_created() -> bool:
            return bool(await pool.claims())

        await until(is_created)
        name = (await pool.claims())[0]["metadata"]["name"]

        async def is_recorded(kind: str) -> bool:
            done = await asyncio.to_thread(tenon, "history", name, "--kind", kind, "-o", "json")
            return done.returncode == 0 and name in done.stdout

        for kind in ("plan", "refusal"):  # two processes write them
            await until(partial(is_recorded, kind))
        history = await asyncio.to_thread(tenon, "history", name, "-o", "wide")
        why = await asyncio.to_thread(tenon, "why", name)
    finally:
        ec2.clear_faults()
    print(history.stdout, why.stdout)
    assert f"creates {name}" in history.stdout
    assert "Why was it created?" in why.stdout
    for text in (history.stdout, why.stdout):
        assert "bought" not in text
        assert "buys" not in text
