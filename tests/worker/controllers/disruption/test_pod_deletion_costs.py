"""The controller of the gate PodDeletionCostManagement, on a real cache; the API server is simulated."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest

from activities import metrics
from activities.kubernetes.errors import ApiError, ForbiddenError
from activities.kubernetes.resources import PODS, Resource
from tenon.apis import labels
from tenon.apis.nodepool import NodePool
from tenon.kube.decode import decode_object
from tenon.kube.pod_decode import decode_pod
from tenon.provisioning.overlays import Overlaid
from tests.activities.node.fake_kube import Clock, FakeKube
from tests.tenon.apis.case import NODEPOOL, edited
from tests.tenon.scheduling.builders import CATALOG
from tests.worker.background import in_background
from tests.worker.cache.objects import claim, node
from tests.worker.fake_temporal import Cache
from worker.cache.planning_view import PlanningView
from worker.controllers.disruption.pod_deletion_costs import INTERVAL, PodDeletionCostController

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]

MOMENT = 2.0
POOL = NODEPOOL["metadata"]["name"]
KIND = CATALOG[0]
SOLD = {
    labels.INSTANCE_TYPE: KIND.name,
    labels.ZONE: KIND.offerings[0].zone,
    labels.CAPACITY_TYPE: KIND.offerings[0].capacity_type,
}
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u", "controller": True}


class Server(FakeKube):
    """An API server whose watch of pods tells the cache at once, unless it is ``late``."""

    def __init__(self, cache: Cache) -> None:
        super().__init__(Clock())
        self.cache = cache
        self.late = False
        self.faults: list[ApiError] = []
        self.patched: list[str] = []

    def pod(self, name: str, node_name: str, cost: str | None = None) -> None:
        annotations = {} if cost is None else {labels.POD_DELETION_COST: cost}
        body = {
            "metadata": {"name": name, "ownerReferences": [OWNER], "annotations": annotations},
            "spec": {"nodeName": node_name, "containers": [{"name": "main"}]},
            "status": {"phase": "Running"},
        }
        self.tell(self.add(PODS, body))

    def tell(self, body: dict[str, Any]) -> None:
        record = decode_pod(json.dumps(body).encode())
        self.cache.pods.on_event(record.key, record)

    async def patch(self, resource: Resource, name: str, patch: Any, **options: Any) -> dict[str, Any] | None:
        self.patched.append(name)
        if self.faults:
            raise self.faults.pop(0)
        answer = await super().patch(resource, name, patch, **options)
        if answer is not None and not self.late:
            self.tell(answer)
        return answer

    def cost(self, name: str) -> str | None:
        annotations = self.objects["pods", "default", name]["metadata"].get("annotations") or {}
        return cast("str | None", annotations.get(labels.POD_DELETION_COST))


@pytest.fixture
def cache() -> Cache:
    filled = Cache()
    pool = {**edited(NODEPOOL, {"disruption/budgets": [{"nodes": "100%"}]})}
    pool["metadata"] = {**pool["metadata"], "uid": "uid-pool", "resourceVersion": "1"}
    filled.pools.on_event(POOL, decode_object(json.dumps(pool).encode()))
    for name in ("a", "b"):
        meta = {"labels": {"karpenter.sh/nodepool": POOL, **SOLD}}
        record = claim(f"claim-{name}", node_name=name, meta=meta, initialized="2026-01-01T00:00:00Z")
        filled.claims.on_event(record.key, record)
        filled.nodes.on_event(name, node(name))
    return filled


@pytest.fixture
def server(cache: Cache) -> Server:
    return Server(cache)


@pytest.fixture(autouse=True)
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of these tests does not wait for threads."""

    async def inline(function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    monkeypatch.setattr(asyncio, "to_thread", inline)


@contextlib.asynccontextmanager
async def controlled(server: Server) -> AsyncIterator[None]:
    pool = NodePool.model_validate(NODEPOOL)

    async def types() -> Overlaid:
        return Overlaid([(pool, list(CATALOG))], {})

    controller = PodDeletionCostController(cast("Any", server), server.cache, PlanningView(server.cache), types)
    async with in_background(controller.run()):
        yield


def written(result: str) -> float:
    return float(metrics.DELETION_COST_WRITES.labels(result)._value.get())


async def test_n15_214_nodes_are_ranked_once_a_minute_after_a_change(server: Server) -> None:
    server.pod("one", "a")
    server.pod("two", "b")
    server.pod("three", "b")
    async with controlled(server):
        await asyncio.sleep(MOMENT)
        assert (server.cost("one"), server.cost("two"), server.cost("three")) == ("-2", "-1", "-1")
        done = len(server.patched)
        await asyncio.sleep(4 * INTERVAL)
        assert len(server.patched) == done, "nothing changed"
        server.pod("four", "b", "7")
        await asyncio.sleep(MOMENT)
        assert server.cost("four") == "-1"
        server.pod("five", "b", "7")
        await asyncio.sleep(MOMENT)
        assert server.cost("five") == "7"
        await asyncio.sleep(INTERVAL)
        assert server.cost("five") == "-1"


async def test_n15_222_a_pod_whose_annotation_changed_is_left_to_the_next_cycle(server: Server) -> None:
    server.pod("one", "a")
    metadata = server.objects["pods", "default", "one"]["metadata"]
    metadata |= {"resourceVersion": "changed", "annotations": {labels.POD_DELETION_COST: "5"}}
    before = written("skipped_conflict")
    async with controlled(server):
        await asyncio.sleep(MOMENT)
        assert written("skipped_conflict") == before + 1
        assert server.cost("one") == "5"
        server.tell(server.objects["pods", "default", "one"])
        server.pod("two", "b")
        await asyncio.sleep(INTERVAL)
        assert server.cost("one") in ("-1", "-2")


async def test_n15_222_a_pod_that_changed_otherwise_is_written_all_the_same(server: Server) -> None:
    """The cache ignores changes of a pod that no decision depends on, and so does not know the newest version."""
    server.pod("one", "a")
    server.objects["pods", "default", "one"]["metadata"]["resourceVersion"] = "changed"
    async with controlled(server):
        await asyncio.sleep(MOMENT)
    assert server.cost("one") == "-1"


async def test_n15_222_a_failed_write_is_tried_again_and_counts_as_pending(server: Server) -> None:
    server.faults = [ApiError(500, "InternalError", "no")]
    server.pod("one", "a")
    async with controlled(server):
        await asyncio.sleep(MOMENT)
        assert metrics.DELETION_COST_PENDING.labels(POOL)._value.get() == 1
        await asyncio.sleep(INTERVAL)
        assert server.cost("one") is not None
        assert metrics.DELETION_COST_PENDING.labels(POOL)._value.get() == 0


async def test_n15_222_what_another_leader_wrote_is_no_longer_pending(server: Server) -> None:
    server.faults = [ApiError(500, "InternalError", "no")]
    server.pod("one", "a")
    async with controlled(server):
        await asyncio.sleep(MOMENT)
        assert metrics.DELETION_COST_PENDING.labels(POOL)._value.get() == 1
    server.pod("one", "a", "-1")
    async with controlled(server):
        await asyncio.sleep(MOMENT)
        assert metrics.DELETION_COST_PENDING.labels(POOL)._value.get() == 0


async def test_n15_223_without_the_right_the_log_says_which_file_to_apply(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.faults = [ForbiddenError(403, "Forbidden", "pods is forbidden")] * 9
    server.pod("one", "a")
    async with controlled(server):
        await asyncio.sleep(MOMENT)
    (record,) = [line for line in caplog.records if line.getMessage().startswith("The controller failed")]
    assert "apply deploy/rbac-gates/PodDeletionCostManagement.yaml" in str(record.__dict__["error"])
