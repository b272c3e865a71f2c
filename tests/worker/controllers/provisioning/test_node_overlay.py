"""The controller of NodeOverlays' conditions with a simulated API server, and warnings about disabled gates."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import logging
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from activities import loggers
from activities.ec2.errors import EC2Error
from activities.kubernetes.errors import ApiError, NotFoundError
from activities.kubernetes.resources import NODEOVERLAYS, Resource
from tenon.apis import labels
from tenon.kube.decode import decode_object
from tenon.provisioning.gates import FeatureGates
from tests.activities.provisioning.fake_view import READY, FakeTypes
from tests.tenon.apis.case import EC2NODECLASS, NODEPOOL, edited, term
from tests.tenon.apis.sample_overlay import BASE
from tests.worker.background import in_background
from tests.worker.cache.objects import metadata
from tests.worker.fake_temporal import Cache
from worker.cache.cluster import ClusterCache
from worker.cache.planning_view import PlanningView
from worker.controllers.provisioning.node_overlay import RETRY, NodeOverlayController
from worker.runtime.leader.disabled_gates import warn_of_disabled_gates

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]

MOMENT = 2.0
"""More than the controller lets changes settle."""
M5 = term(labels.INSTANCE_TYPE, "In", "m5.large")


class Server:
    """Merges patches of overlays into the cache, as a watch would."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.patches: list[str] = []
        self.fault: ApiError | None = None

    async def patch(self, resource: Resource, name: str, patch: dict[str, Any], *, subresource: str = "") -> None:
        assert (resource, subresource) == (NODEOVERLAYS, "status")
        if self.fault is not None:
            raise self.fault
        self.patches.append(name)
        present = self.cache.overlays.get(name)
        assert present is not None
        self.put({**copy.deepcopy(dict(present.body)), "status": patch["status"]})

    def put(self, body: dict[str, Any]) -> None:
        name = body["metadata"]["name"]
        values = {key: value for key, value in body["metadata"].items() if key not in ("name", "resourceVersion")}
        whole = {**body, "metadata": metadata(name, **values)}
        self.cache.overlays.on_event(name, decode_object(json.dumps(whole).encode()))

    def overlay(self, name: str, generation: int = 1, **spec: Any) -> None:
        self.put({**edited(BASE, {"requirements": [M5], **spec}), "metadata": {"name": name, "generation": generation}})

    def says(self, name: str) -> dict[str, tuple[str, str]]:
        overlay = self.cache.overlays.get(name)
        assert overlay is not None
        return {
            condition["type"]: (condition["status"], condition["reason"])
            for condition in overlay.status.get("conditions") or []
        }


@contextlib.asynccontextmanager
async def keeping(types: FakeTypes | None = None, **prices: str) -> AsyncIterator[tuple[Cache, Server]]:
    """A controller that has looked at overlays of these names and prices."""
    cache = Cache()
    server = Server(cache)
    ready = {**EC2NODECLASS, "metadata": metadata("default"), "status": {"conditions": [READY]}}
    cache.nodeclasses.on_event("default", decode_object(json.dumps(ready).encode()))
    pool = {**NODEPOOL, "metadata": metadata("default", generation=1)}
    cache.pools.on_event("default", decode_object(json.dumps(pool).encode()))
    for name, price in prices.items():
        server.overlay(name, price=price)
    controller = NodeOverlayController(cast("Any", server), cache, PlanningView(cache), types or FakeTypes())
    async with in_background(controller.run()):
        await asyncio.sleep(MOMENT)
        yield cache, server


async def test_no06_the_later_of_two_equals_is_reported_and_applies_once_the_other_is_gone() -> None:
    async with keeping(a="1", z="2") as (cache, server):
        assert server.says("z") == {
            "ValidationSucceeded": ("True", "ValidationSucceeded"),
            "Ready": ("True", "Ready"),
        }
        assert server.says("a")["ValidationSucceeded"] == ("False", "Conflict")
        assert server.says("a")["Ready"][0] == "False"
        cache.overlays.on_event("z", None)
        await asyncio.sleep(MOMENT)
        assert server.says("a")["Ready"] == ("True", "Ready")


async def test_no06_a_conflict_in_a_static_pool_is_reported() -> None:
    async with keeping() as (cache, server):
        static = {**edited(NODEPOOL, {"replicas": 1}), "metadata": metadata("fixed", generation=1)}
        cache.pools.on_event("fixed", decode_object(json.dumps(static).encode()))
        for name, price in (("a", "1"), ("z", "2")):
            server.overlay(name, requirements=[term(labels.NODEPOOL, "In", "fixed")], price=price)
        await asyncio.sleep(MOMENT)
        assert server.says("z")["Ready"] == ("True", "Ready")
        assert server.says("a")["ValidationSucceeded"] == ("False", "Conflict")


async def test_no06_an_invalid_stored_overlay_is_reported_and_has_no_effect() -> None:
    async with keeping(z="2") as (cache, server):
        server.overlay("broken", price="1", priceAdjustment="+1")
        server.overlay("absurd", price="9" * 20)
        await asyncio.sleep(MOMENT)
        for name in ("broken", "absurd"):
            assert server.says(name)["ValidationSucceeded"] == ("False", "RuntimeValidation")
        assert server.says("z")["Ready"] == ("True", "Ready")
        assert {overlay.metadata.name for overlay in PlanningView(cache).overlays()} == {"z", "absurd"}


async def test_conditions_that_are_true_are_not_written_again() -> None:
    async with keeping(a="1", z="2") as (_, server):
        written = list(server.patches)
        await asyncio.sleep(24 * 3600)
        assert server.patches == written


async def test_no09_an_outage_of_ec2_or_kubernetes_is_tried_again() -> None:
    types = FakeTypes()

    def away() -> None:
        raise EC2Error("RequestLimitExceeded", "slow down", retryable=True)

    types.on_read = away
    async with keeping(types, a="1") as (_, server):
        assert server.says("a") == {}
        types.on_read = lambda: None
        server.fault = ApiError(500, "InternalError", "etcd is away")
        await asyncio.sleep(RETRY + MOMENT)
        assert server.says("a") == {}
        server.fault = None
        await asyncio.sleep(RETRY + MOMENT)
        assert server.says("a")["Ready"] == ("True", "Ready")


@pytest.mark.parametrize(
    ("gates", "watched"),
    [
        (FeatureGates(), set[str]()),
        (FeatureGates(node_overlay=True), {"nodeoverlays"}),
        (FeatureGates(capacity_buffer=True), {"capacitybuffers", "podtemplates", "deployments"}),
    ],
)
async def test_gat04_gat06_what_a_gate_keeps_off_is_not_read(gates: FeatureGates, watched: set[str]) -> None:
    read = set(ClusterCache(cast("Any", None), gates=gates).unsynced_resources)
    assert read & {"nodeoverlays", "capacitybuffers", "podtemplates", "deployments"} == watched


async def test_gat04_gat06_objects_that_have_no_effect_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """An API server that is busy when the leader begins to lead is asked again."""

    class Api:
        def __init__(self) -> None:
            self.is_busy = False

        async def request(self, method: str, path: str, *, query: dict[str, str]) -> bytes:
            assert query == {"limit": "1"}
            if "capacitybuffers" in path:
                raise NotFoundError(404, "NotFound", "the server could not find the requested resource")
            self.is_busy = not self.is_busy
            if self.is_busy:
                raise ApiError(503, "ServiceUnavailable", "etcd is away")
            return b'{"items": [{}]}'

    with caplog.at_level(logging.WARNING):
        await warn_of_disabled_gates(cast("Any", Api()), FeatureGates())
        await warn_of_disabled_gates(cast("Any", Api()), FeatureGates(node_overlay=True))
    (line,) = [record for record in caplog.records if record.name == loggers.SETTINGS.name]
    assert vars(line)["kind"] == "NodeOverlay"
    assert vars(line)["setting"] == "FEATURE_GATES=NodeOverlay=true"
