"""Two clusters with one Temporal server: both in one namespace, or each in its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio.client import Client

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import EC2NODECLASSES, NODECLAIMS
from sandbox.cluster import Sandbox
from sandbox.temporal import NAMESPACE, TemporalKind, namespaces
from tests.e2e.pools import Pool, condition
from tests.postgresql.conftest import Working
from tests.sandbox_clients import administrator
from tests.sandbox_fixture import BOOT_SECONDS
from tests.workflows.waiting import until
from workflows.names import nodeclaim_id

NAME = "same"
"""The NodeClaim and the EC2NodeClass have this name in both clusters."""
WITHIN = 180.0


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def other(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    """A second cluster, with an AWS of its own. Nobody uses its Temporal."""
    folder = tmp_path_factory.mktemp("other")
    running = await asyncio.to_thread(
        lambda: Sandbox.start(folder, boot_delay=BOOT_SECONDS, temporal=TemporalKind.DEV, cluster_name="other")
    )
    running.ec2().lifecycle(pending=0.2, shutting_down=0.2)
    yield running
    await asyncio.to_thread(running.stop)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def other_kube(other: Sandbox) -> AsyncIterator[Kube]:
    async with administrator(other) as client:
        yield client


class Cluster:
    """One of the two, with a NodeClaim of the shared name."""

    def __init__(self, sandbox: Sandbox, kube: Kube) -> None:
        self.sandbox = sandbox
        self._kube = kube

    async def launch(self) -> None:
        """Create the NodeClaim, and wait until it is Ready."""
        role = f"KarpenterNodeRole-{self.sandbox.cluster_name}"
        await self._kube.create(EC2NODECLASSES, Pool(self._kube, self.sandbox, NAME).node_class(role=role))
        await until(self._class_ready, within=WITHIN)
        types = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]}
        reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": NAME}
        spec = {"requirements": [types], "resources": {"requests": {"cpu": "1"}}, "nodeClassRef": reference}
        await self._kube.create(NODECLAIMS, {"metadata": {"name": NAME}, "spec": spec})
        await until(self.ready, within=WITHIN)

    async def ready(self) -> bool:
        return condition(await self._claim(), "Ready").get("status") == "True"

    async def end(self) -> None:
        """Delete the NodeClaim, and wait until it and its instance are gone."""
        await self._kube.delete(NODECLAIMS, NAME)
        await until(self._gone, within=WITHIN)
        await self._kube.delete(EC2NODECLASSES, NAME)
        await until(self._class_gone, within=WITHIN)

    def states(self) -> list[str]:
        """The states of its EC2 instances that have not ended."""
        return [instance["state"] for instance in self.sandbox.ec2().instances() if instance["state"] != "terminated"]

    async def _claim(self) -> dict[str, Any] | None:
        return await self._kube.get(NODECLAIMS, NAME)

    async def _gone(self) -> bool:
        return await self._claim() is None and not await asyncio.to_thread(self.states)

    async def _class_ready(self) -> bool:
        return condition(await self._kube.get(EC2NODECLASSES, NAME), "Ready").get("status") == "True"

    async def _class_gone(self) -> bool:
        return await self._kube.get(EC2NODECLASSES, NAME) is None


async def open_lives(sandbox: Sandbox, namespace: str) -> set[str]:
    """The ids of the open workflows of NodeClaims in a namespace."""
    client = await Client.connect(sandbox.temporal_address, namespace=namespace)
    query = "ExecutionStatus = 'Running' AND WorkflowType = 'NodeClaim'"
    return {workflow.id async for workflow in client.list_workflows(query)}


@pytest.mark.parametrize("shared", [True, False], ids=["one namespace", "a namespace each"])
async def test_nodeclaims_of_one_name_in_two_clusters_are_two_lives(
    sandbox: Sandbox, kube: Kube, other: Sandbox, other_kube: Kube, working: Working, shared: bool, tmp_path: Path
) -> None:
    """The end of one leaves the other as it is."""
    second = NAMESPACE if shared else "second"
    await namespaces.create(sandbox.temporal_address, second)
    mine, others = Cluster(sandbox, kube), Cluster(other, other_kube)
    ids = {nodeclaim_id(sandbox.cluster_name, NAME), nodeclaim_id(other.cluster_name, NAME)}
    with ExitStack() as workers:
        workers.enter_context(working())
        workers.enter_context(working(other, TEMPORAL_ADDRESS=sandbox.temporal_address, TEMPORAL_NAMESPACE=second))
        await asyncio.gather(mine.launch(), others.launch())
        names = [await open_lives(sandbox, NAMESPACE), await open_lives(sandbox, second)]
        assert names == ([ids, ids] if shared else [{item} for item in sorted(ids, reverse=True)])
        await mine.end()
        assert await others.ready()
        assert (mine.states(), others.states()) == ([], ["running"])
        await others.end()
        assert others.states() == []
