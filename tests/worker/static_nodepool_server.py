"""An API server for tests of static NodePools: it tells the cache of changes, refuses, and counts what is read."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, cast

from activities.kubernetes.errors import ApiError, ConflictError
from activities.provisioning.launch_refusals import LaunchRefusals
from tenon.apis import labels
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.decode import decode_nodeclaim, decode_object
from tenon.kube.records import NodeRecord, PodRecord
from tenon.provisioning.planning_policy import PlanPolicy
from tests.activities.provisioning.fake_view import READY, FakeTypes
from tests.tenon.apis.case import EC2NODECLASS, NODEPOOL, edited
from tests.worker.background import in_background
from tests.worker.cache.objects import metadata, node
from tests.worker.fake_temporal import Cache
from worker.cache.planning_view import PlanningView
from worker.cache.table import Table
from worker.controllers.provisioning.purchase_turns import PurchaseTurns
from worker.controllers.provisioning.static_nodepool import StaticNodePoolController

MOMENT = 1.0
"""More than the controller lets changes settle."""


class ApiServer:
    """NodePools and NodeClaims, told to the cache by a watch that can be stopped; ``looks`` counts what is read."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.pools: dict[str, dict[str, Any]] = {}
        self.claims: dict[str, dict[str, Any]] = {}
        self.watching = True
        self.away = False
        self.created: list[str] = []
        self.deleted: list[str] = []
        self.looks = 0
        self.slow = 0.0
        """Seconds that a list is on its way."""
        self.lag = 0.0
        """Seconds after which the cache hears of a new NodeClaim."""
        self.on_create: Callable[[], None] = lambda: None
        self._versions = itertools.count(1)

    def put_pool(self, replicas: int, *, name: str = "fixed", events: bool = True, **edits: Any) -> None:
        """What a user writes; annotations stay."""
        before = self.pools.get(name, {"metadata": {"generation": 0, "annotations": {}}})["metadata"]
        body = {**edited(NODEPOOL, {"replicas": replicas, **edits})}
        body["metadata"] = metadata(name, generation=before["generation"] + 1, annotations=before["annotations"])
        self.pools[name] = body
        if events:
            self.tell_pool(name)

    def tell_pool(self, name: str = "fixed") -> None:
        self.cache.pools.on_event(name, decode_object(json.dumps(self.pools[name]).encode()))

    def publish(self, name: str) -> None:
        if not self.watching:
            return
        body = self.claims.get(name)
        if body:
            body["metadata"]["resourceVersion"] = str(next(self._versions))
        self.cache.claims.on_event(name, decode_nodeclaim(json.dumps(body).encode()) if body else None)

    def launch(self, name: str) -> None:
        """EC2 has sold an instance, and its Node has joined."""
        self.claims[name]["status"] = {"providerID": f"aws:///us-west-2a/i-{name}", "nodeName": name}
        self.cache.publish(node(name))
        self.publish(name)

    def end(self, name: str) -> None:
        """The workflow has let the claim go."""
        del self.claims[name]
        self.publish(name)

    def standing(self) -> list[str]:
        return sorted(n for n, c in self.claims.items() if "deletionTimestamp" not in c["metadata"])

    async def get(self, _: object, name: str) -> dict[str, Any] | None:
        self._check()
        self.looks += 1
        return self.pools.get(name)

    async def patch(self, _: object, name: str, patch: dict[str, Any], *, subresource: str = "") -> Any:
        """Annotations of the pool, of the version that the patch names; or finalizers and annotations of a claim."""
        self._check()
        if name in self.claims:
            assert not subresource
            written = {key: value for key, value in patch["metadata"].items() if key in ("finalizers", "annotations")}
            self.claims[name]["metadata"] |= written
            return self.claims[name]
        body = self.pools[name]
        metadata = patch["metadata"]
        if any(body["metadata"][key] != metadata[key] for key in ("uid", "resourceVersion")):
            raise ConflictError(409, "Conflict", "it was changed")
        now = {**body["metadata"]["annotations"], **metadata["annotations"]}
        version = f"patched-{next(self._versions)}"
        self.pools[name] = {**body, "metadata": {**body["metadata"], "annotations": now, "resourceVersion": version}}
        return self.pools[name]

    async def list(self, _: object, *, label_selector: str) -> list[dict[str, Any]]:
        self._check()
        key, _, pool = label_selector.partition("=")
        assert key == labels.NODEPOOL
        self.looks += 1
        claims = [body for body in self.claims.values() if body["metadata"]["labels"][key] == pool]
        await asyncio.sleep(self.slow)
        return claims

    async def create(self, _: object, body: dict[str, Any]) -> None:
        self._check()
        name = body["metadata"]["name"]
        if name in self.claims:
            raise ConflictError(409, "AlreadyExists", "it exists")
        self.claims[name] = {**body, "metadata": {**metadata(name), **body["metadata"]}, "status": {}}
        self.created.append(name)
        if self.lag:
            asyncio.get_running_loop().call_later(self.lag, self.publish, name)
        else:
            self.publish(name)
        self.on_create()

    async def delete(self, _: object, name: str, *, uid: str) -> bool:
        self._check()
        assert self.claims[name]["metadata"]["uid"] == uid
        assert labels.TERMINATION_FINALIZER in self.claims[name]["metadata"]["finalizers"]
        self.claims[name]["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
        self.deleted.append(name)
        self.publish(name)
        return True

    def _check(self) -> None:
        if self.away:
            raise ApiError(503, "ServiceUnavailable", "away")


class CountingTable(Table[ClaimRecord]):
    """Counts how often it is gone through."""

    walks = 0

    def __iter__(self) -> Iterator[ClaimRecord]:
        self.walks += 1
        return super().__iter__()


class CountingCache(Cache):
    """Counts what a look costs."""

    def __init__(self) -> None:
        super().__init__()
        self.claims = self.counted = CountingTable(self._claim_changed)
        self.nodes_asked = self.pods_asked = 0

    def node_of(self, claim: ClaimRecord) -> NodeRecord | None:
        self.nodes_asked += 1
        return super().node_of(claim)

    def pods_on(self, node_name: str) -> list[PodRecord]:
        self.pods_asked += 1
        return super().pods_on(node_name)


@contextlib.asynccontextmanager
async def keeping(
    server: ApiServer, policy: PlanPolicy | None = None, refusals: LaunchRefusals | None = None
) -> AsyncIterator[None]:
    """A controller that has looked once."""
    cache = server.cache
    ready = {**EC2NODECLASS, "metadata": metadata("default"), "status": {"conditions": [READY]}}
    cache.nodeclasses.on_event("default", decode_object(json.dumps(ready).encode()))
    view = PlanningView(cache)
    controller = StaticNodePoolController(
        cast("Any", server),
        cache,
        view,
        FakeTypes(),
        policy or PlanPolicy(),
        PurchaseTurns(view),
        refusals or LaunchRefusals(),
    )
    async with in_background(controller.run()):
        await settle()
        yield


async def settle(seconds: float = MOMENT) -> None:
    """Let the controller come to rest."""
    await asyncio.sleep(seconds)


def served(replicas: int, **edits: Any) -> ApiServer:
    server = ApiServer(Cache())
    server.put_pool(replicas, **edits)
    return server
