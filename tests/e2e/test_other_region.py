"""Tenon in China: another partition, another currency, other names of services, on a sandbox of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from activities.kubernetes.client import Kube
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tests.e2e.conftest import MakeWorker
from tests.e2e.pools import SMALL, fresh_pool
from tests.e2e.worker import Worker
from tests.sandbox_clients import administrator
from tests.sandbox_fixture import BOOT_SECONDS
from tests.workflows.waiting import until

REGION = "cn-north-1"
PRICE = "karpenter_cloudprovider_instance_type_offering_price_estimate"


@pytest.fixture(scope="module")
def sandbox(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    folder, pods = tmp_path_factory.mktemp("china"), request.config.getoption("pods")
    with Sandbox.start(folder, boot_delay=BOOT_SECONDS, region=REGION, kubelet=pods) as running:
        running.ec2().lifecycle(pending=0.2, shutting_down=0.2)
        yield running


@pytest.fixture(scope="module")
def worker(sandbox: Sandbox, make_worker: MakeWorker) -> Iterator[Worker]:
    running = make_worker(sandbox, "china")
    running.start()
    yield running
    assert running.stop() == 0, f"see {running.log}"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def kube(sandbox: Sandbox) -> AsyncIterator[Kube]:
    async with administrator(sandbox) as client:
        yield client


async def test_aws130_pods_run_in_another_partition_and_prices_are_in_its_currency(
    sandbox: Sandbox, kube: Kube, worker: Worker
) -> None:
    """AWS-160, MET-51: nothing is refused, from the start of the worker until the node is gone."""
    async with fresh_pool(kube, sandbox, requirements=SMALL) as pool:
        await pool.deploy(1)
        await pool.running(1)
        (claim,) = await pool.settled(1)
        (node,) = await pool.nodes()
        assert node["metadata"]["labels"][labels.REGION] == REGION
        assert node["metadata"]["labels"][labels.ZONE].startswith(REGION)
        assert claim["status"]["providerID"].startswith(f"aws:///{REGION}")

        async def priced() -> bool:
            offering = {"instance_type": "m5.large", "capacity_type": "on-demand", "zone": f"{REGION}a"}
            return worker.metric(PRICE, **offering) == 1.013

        await until(priced)
        await pool.scale(0)
        await pool.gone(claim["metadata"]["name"])
    assert sandbox.ec2().rights()["refused"] == []
