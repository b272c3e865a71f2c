"""What fifty nodes that leave cost the API server, by its own counts and by what the client sends."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODES, PODS, VOLUMEATTACHMENTS
from activities.kubernetes.shared_list import PAUSE_SECONDS
from activities.node.drain import drain
from activities.node.nodes import find_node, pods_on
from activities.node.volumes import detach_volumes
from sandbox.cluster import Sandbox
from tenon.messages.base import ClaimRef
from tenon.messages.node_steps import DetachInput, DrainInput, NodeInput
from tests.activities.node.fake_kube import Recorder

COUNT = 50
POD = {"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "pause"}]}
NAMES = [f"crowded-{number}" for number in range(COUNT)]


class Counts:
    """What the API server counted since the last look."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._before: dict[str, float] = {}

    async def take(self) -> dict[str, float]:
        """Series with their labels -> how much they grew."""
        text = (await self._kube.request("GET", "/metrics")).decode()
        now = {series: float(value) for series, value in re.findall(r"^(apiserver_\S*?\{.*\}) (\S+)$", text, re.M)}
        grown = {series: value - self._before.get(series, 0.0) for series, value in now.items()}
        self._before = now
        return grown


def total(grown: dict[str, float], metric: str, *labels: str) -> float:
    """The growth of all series of a metric with these labels."""
    return sum(
        growth
        for series, growth in grown.items()
        if series.startswith(f"{metric}{{") and all(label in series for label in labels)
    )


@pytest.fixture
def lists(kube: Kube, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the client asks for each path. The API server also counts the lists of Kubernetes' controllers."""
    counts: Counter[str] = Counter()
    send = kube.request

    async def request(method: str, path: str, **options: Any) -> bytes:
        counts[path] += method == "GET"
        return await send(method, path, **options)

    monkeypatch.setattr(kube, "request", request)
    return counts


def wanted(name: str, **fields: Any) -> dict[str, Any]:
    claim = ClaimRef(cluster="c", name=name, uid=name)
    return {"claim": claim, "provider_id": f"other:///{name}", "node_name": name, **fields}


@pytest_asyncio.fixture(loop_scope="session")
async def crowd(sandbox: Sandbox, kube: Kube) -> AsyncIterator[None]:
    """Fifty Nodes without a machine, each with a pod and a volume that stays attached."""
    for name in NAMES:
        spec = {"providerID": f"other:///{name}", "unschedulable": True}
        await kube.create(NODES, {"metadata": {"name": name}, "spec": spec})
        body = {"metadata": {"name": name, "namespace": "default"}, "spec": {**POD, "nodeName": name}}
        await kube.create(PODS, body)
        source = {"persistentVolumeName": f"volume-{name}"}
        attachment = {"attacher": "nobody.example.com", "nodeName": name, "source": source}
        await kube.create(VOLUMEATTACHMENTS, {"metadata": {"name": name}, "spec": attachment})
    yield
    for name in NAMES:
        await kube.delete(VOLUMEATTACHMENTS, name)
        await kube.delete(PODS, name, namespace="default", grace_seconds=0)
        await kube.delete(NODES, name)


async def test_the_pods_of_a_node_are_read_by_the_index_and_never_from_storage(crowd: None, kube: Kube) -> None:
    """A list in pages reads every pod of the cluster from etcd: for each node, each second of its drain."""
    # Every five minutes the API server itself compares its cache with etcd, by one list of all pods.
    own_check = len(await kube.list(PODS))
    pods, etcd = 'resource="pods"', 'storage="etcd"'
    counts = Counts(kube)
    await counts.take()
    for latest in (True, False):
        for name in NAMES:
            (pod,) = await pods_on(kube, name, latest=latest)
            assert pod.pod.name == name
        grown = await counts.take()
        # On a busy machine, a read of the latest may wait three seconds for the cache. Then etcd answers it.
        late = total(grown, "apiserver_watch_cache_consistent_read_total", pods, 'fallback="true"')
        from_storage = total(grown, "apiserver_storage_list_fetched_objects_total", pods, etcd)
        assert from_storage <= (1 + late) * own_check, f"{latest=}"
        assert total(grown, "apiserver_storage_list_total", pods, etcd) <= 1 + late, "not even asked for its version"
        by_index = total(grown, "apiserver_storage_list_total", pods, 'index="f:spec.nodeName"', 'storage="watchcache"')
        assert by_index >= COUNT - late, f"{latest=}"


async def test_fifty_nodes_that_leave_share_their_lists(crowd: None, kube: Kube, lists: Counter[str]) -> None:
    """Each looks for attached volumes every two seconds, and the API server has no selector for them."""
    clock, recorder = asyncio.get_running_loop().time, Recorder()
    began = clock()

    async def leave(name: str) -> None:
        drained = await drain(kube, recorder, DrainInput(**wanted(name)), _now)
        assert (drained.drained, drained.evicted, drained.volumes_attached) == (True, 1, 1)
        detach_input = DetachInput(**wanted(name, budget_seconds=10.0))
        assert not (await detach_volumes(kube, recorder, detach_input, _now)).detached

    await asyncio.gather(*(leave(name) for name in NAMES))
    assert 0 < lists[VOLUMEATTACHMENTS.path()] <= (clock() - began) / PAUSE_SECONDS + 2
    assert lists[NODES.path()] == 0


async def test_fifty_claims_without_a_named_node_share_their_lists(
    crowd: None, kube: Kube, lists: Counter[str]
) -> None:
    """Claims of one batch whose nodes never joined come to their last look together."""

    async def look(name: str) -> None:
        match = await find_node(kube, NodeInput(**wanted(name, node_name="")), None)
        assert match.node is not None
        assert match.node["metadata"]["name"] == name

    await asyncio.gather(*(look(name) for name in NAMES))
    assert 0 < lists[NODES.path()] <= 2


def _now() -> datetime:
    return datetime.now(UTC)
