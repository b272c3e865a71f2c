"""A running controller of NodePools; API server and events are played from memory."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

from prometheus_client import REGISTRY

from activities.disruption.slowed_pools import SlowedPools
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import NODECLAIMS
from activities.provisioning.launch_refusals import LaunchRefusals
from tenon.kube.decode import decode_object
from tenon.provisioning.planning_policy import PlanPolicy
from tests.activities.node.fake_kube import Recorder
from tests.activities.provisioning.fake_view import READY
from tests.tenon.apis.case import EC2NODECLASS, NODEPOOL, edited
from tests.worker.background import in_background
from tests.worker.cache.objects import metadata
from tests.worker.fake_temporal import MOMENT, Cache
from worker.cache.planning_view import PlanningView
from worker.controllers.nodepool.prices import PoolPrices
from worker.controllers.nodepool.status import NodePoolStatusController


class ApiServer:
    """Merges patches of NodePools into the cache, as a watch would; names in ``broken`` are refused."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.patches: list[tuple[str, str]] = []
        self.broken: set[str] = set()
        self.pruned: set[str] = set()
        """Fields of the status that the CRD does not have."""

    async def patch(self, resource: Any, name: str, patch: dict[str, Any], *, subresource: str = "") -> None:
        if name in self.broken:
            raise ApiError(500, "InternalError", "etcd is away")
        self.patches.append((name, subresource))
        if resource is NODECLAIMS:
            return
        present = self.cache.pools.get(name)
        assert present is not None
        body: dict[str, Any] = copy.deepcopy(dict(present.body))
        for part, fields in patch.items():
            body[part] = {**body.get(part, {}), **{key: fields[key] for key in fields if key not in self.pruned}}
        put(self.cache, body)

    def status(self, name: str) -> dict[str, Any]:
        pool = self.cache.pools.get(name)
        assert pool is not None
        return dict(pool.status)

    def condition(self, name: str, kind: str) -> dict[str, Any]:
        pool = self.cache.pools.get(name)
        assert pool is not None
        return dict(pool.condition(kind))


def put(cache: Cache, body: dict[str, Any]) -> None:
    """A NodePool as the watch tells it."""
    name = body["metadata"]["name"]
    values = {key: value for key, value in body["metadata"].items() if key not in ("name", "resourceVersion")}
    cache.pools.on_event(name, decode_object(json.dumps({**body, "metadata": metadata(name, **values)}).encode()))


def pool(name: str, edits: dict[str, Any] | None = None) -> dict[str, Any]:
    return {**edited(NODEPOOL, edits or {}), "metadata": {"name": name, "generation": 1}}


@contextlib.asynccontextmanager
async def keeping(
    *pools: dict[str, Any],
    claims: Sequence[Any] = (),
    broken: str = "",
    measured: bool = True,
    refusals: LaunchRefusals | None = None,
    slowed: SlowedPools | None = None,
    prices: PoolPrices | None = None,
    policy: PlanPolicy | None = None,
) -> AsyncIterator[tuple[Cache, ApiServer, Recorder]]:
    """A controller that has looked at these pools."""
    cache, recorder = Cache(), Recorder()
    cache.publish(*claims)
    server = ApiServer(cache)
    server.broken = {broken}
    for body in pools:
        put(cache, body)
    ready = {**EC2NODECLASS, "metadata": metadata("default"), "status": {"conditions": [READY]}}
    cache.nodeclasses.on_event("default", decode_object(json.dumps(ready).encode()))
    view = PlanningView(cache)
    controller = NodePoolStatusController(
        cast("Any", server),
        cast("Any", recorder),
        cache,
        view,
        measured=measured,
        refusals=refusals,
        slowed=slowed,
        prices=prices,
        policy=policy,
    )
    async with in_background(controller.run()):
        await asyncio.sleep(MOMENT)
        yield cache, server, recorder


def measured_breaker(name: str) -> float | None:
    return REGISTRY.get_sample_value("tenon_nodepools_launches_held_back", {"nodepool": name})
