"""SCH-081: a LimitRange gives requests to a DaemonSet that states none, and the first node has room for its pod."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import LIMITRANGES
from tests.e2e.conftest import MakePool
from tests.e2e.pools import NAMESPACE


@pytest_asyncio.fixture(loop_scope="session")
async def generous(kube: Kube) -> AsyncIterator[None]:
    """Containers that state nothing request 1.5 CPU."""
    spec = {"limits": [{"type": "Container", "defaultRequest": {"cpu": "1500m"}}]}
    await kube.create(LIMITRANGES, {"metadata": {"name": "generous"}, "spec": spec}, NAMESPACE)
    yield
    await kube.delete(LIMITRANGES, "generous", namespace=NAMESPACE)


async def test_the_first_node_has_room_for_a_daemon_with_requests_by_a_limit_range(
    generous: None, make_pool: MakePool
) -> None:
    """A node of 2 CPU would hold the pod alone; its DaemonSet's pod would be left, or the pod need a second node."""
    sizes = [{"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["2", "4"]}]
    pool = await make_pool(requirements=sizes, consolidate_after="Never")
    await pool.daemon(containers=[{"name": "main", "image": "pause"}])
    await pool.pod("web")
    await pool.running(1, app="web")
    (agent,) = await pool.running(1, app="agent")
    assert agent["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "1500m"
    (claim,) = await pool.claims()
    assert claim["metadata"]["labels"]["karpenter.k8s.aws/instance-cpu"] == "4"
