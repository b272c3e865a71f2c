"""Disruption commands that wait for slow replacements hold no worker slot, so launches of other NodePools go on."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from temporalio.client import Client

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS, NODEPOOLS
from sandbox.cluster import Sandbox
from sandbox.ec2.client import Ec2Admin
from sandbox.faults.apiproxy import ApiProxy
from tenon.apis import labels
from tests.e2e.conftest import MakePool
from tests.e2e.pools import SMALL
from tests.e2e.worker_process import WorkerProcess
from tests.workflows.waiting import until

NODES = 12
SLOTS = 10
"""As in few_slots/sitecustomize.py."""
OTHER = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.2xlarge"]}]


async def test_dis63_a_pod_gets_its_node_while_more_commands_wait_than_there_are_slots(
    worker: WorkerProcess,
    make_pool: MakePool,
    kube: Kube,
    ec2: Ec2Admin,
    client: Client,
    sandbox: Sandbox,
    api: ApiProxy,
) -> None:
    path = os.pathsep.join([str(Path(__file__).parent / "few_slots"), str(Path(__file__).parents[2])])
    few = WorkerProcess(sandbox, "few-slots", KUBECONFIG=str(api.kubeconfig), PYTHONPATH=path)
    stopped = await asyncio.to_thread(worker.stop)
    try:
        assert stopped == 0, f"see {worker.log}"
        await asyncio.to_thread(few.start)
        old = await make_pool(requirements=SMALL, consolidate_after="Never", capacity_types=["on-demand"])
        other = await make_pool(requirements=OTHER)
        await old.deploy(NODES)
        await old.running(NODES, within=300)
        slow = {str(claim["metadata"]["name"]) for claim in await old.settled(NODES)}
        ec2.boot(never=True)
        template = {"spec": {"template": {"metadata": {"labels": {"generation": "two"}}}}}
        await kube.patch(NODEPOOLS, old.name, template)

        async def waiting() -> set[str]:
            """The commands whose replacement has its instance, which never boots."""
            return {
                claim["metadata"]["annotations"].get(labels.REPLACEMENT_FOR, "")
                for claim in await kube.list(NODECLAIMS)
                if claim["metadata"]["name"] not in slow and (claim.get("status") or {}).get("providerID")
            } - {""}

        async def more_than_slots() -> bool:
            return len(await waiting()) > SLOTS

        await until(more_than_slots, within=240)
        wait = await waiting()
        ec2.boot(delay=1.0, type="m5.2xlarge")
        await other.deploy(1, cpu="5")
        await other.running(1)
        assert wait <= await waiting(), "the commands still wait"
        query = "WorkflowType = 'DisruptionCommand' AND ExecutionStatus = 'Running'"

        async def listed() -> bool:
            """Temporal lists workflows a moment after they began."""
            return len([workflow async for workflow in client.list_workflows(query)]) > SLOTS

        await until(listed)
    finally:
        ec2.clear_boot()
        if few.running:
            await asyncio.to_thread(few.stop)
        await asyncio.to_thread(worker.start)
