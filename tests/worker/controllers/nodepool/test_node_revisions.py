"""The controller that records versions of NodePools, with a simulated API server."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from activities.kubernetes.resources import CONTROLLERREVISIONS, EC2NODECLASSES, Resource
from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.evolve import evolve
from tenon.kube.decode import decode_object
from tenon.rollout.revisions import MAX_REVISIONS
from tests.activities.node.fake_kube import merged
from tests.activities.provisioning.fake_view import node_class, node_pool
from tests.worker.background import in_background
from tests.worker.cache.objects import claim
from tests.worker.fake_temporal import Cache
from worker.cache.node_versions import decode_revision
from worker.cache.planning_view import PlanningView
from worker.controllers.nodepool.revisions import NodeRevisionController

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]

MOMENT = 3.0


class Server:
    """Puts what is written into the cache, as watches would."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.writes = 0
        self._version = 100

    def put(self, model: EC2NodeClass | None = None, body: dict[str, Any] | None = None) -> None:
        self._version += 1
        whole = body or json.loads(model.model_dump_json(by_alias=True, exclude_none=True)) if model else body
        assert whole is not None
        whole["metadata"]["resourceVersion"] = str(self._version)
        self.cache.nodeclasses.on_event("default", decode_object(json.dumps(whole).encode()))

    async def get(self, resource: Resource, name: str) -> dict[str, Any] | None:
        record = self.cache.nodeclasses.get(name)
        return dict(record.body) if record is not None else None

    async def create(self, resource: Resource, body: dict[str, Any], namespace: str) -> None:
        assert (resource, namespace) == (CONTROLLERREVISIONS, "tenon")
        self.writes += 1
        record = decode_revision(json.dumps(body).encode())
        self.cache.versions.revisions.on_event(record.key, record)

    async def delete(self, resource: Resource, name: str, *, namespace: str) -> bool:
        assert (resource, namespace) == (CONTROLLERREVISIONS, "tenon")
        self.cache.versions.revisions.on_event(name, None)
        return True

    async def patch(self, resource: Resource, name: str, patch: dict[str, Any], *, subresource: str) -> dict[str, Any]:
        assert (resource, name, subresource) == (EC2NODECLASSES, "default", "status")
        record = self.cache.nodeclasses.get(name)
        assert record is not None
        self.writes += 1
        body = merged(json.loads(json.dumps(record.body)), {"status": patch["status"]})
        self.put(body=body)
        return dict(body)

    def rollout(self, **row: Any) -> None:
        self._version += 1
        body = {
            "metadata": {"name": "nodes", "uid": "1", "resourceVersion": str(self._version)},
            "spec": {},
            "status": {"nodePools": [{"name": "default", **row}] if row else []},
        }
        self.cache.versions.rollouts.on_event("nodes", decode_object(json.dumps(body).encode()))

    def digests(self) -> list[str]:
        """The recorded versions, the oldest first."""
        revisions = sorted((record.value for record in self.cache.versions.revisions), key=lambda item: item.number)
        return [revision.digest for revision in revisions]

    def condition(self) -> dict[str, Any]:
        record = self.cache.nodeclasses.get("default")
        assert record is not None
        return dict(record.condition("VersionHeld"))


def with_user_data(text: str) -> EC2NodeClass:
    return evolve(node_class(uid="class-uid"), spec=evolve(node_class().spec, user_data=text))


@contextlib.asynccontextmanager
async def recording() -> AsyncIterator[Server]:
    cache = Cache()
    server = Server(cache)
    pool = json.loads(node_pool().model_dump_json(by_alias=True, exclude_none=True))
    cache.pools.on_event("default", decode_object(json.dumps(pool).encode()))
    server.put(with_user_data("echo 0"))
    controller = NodeRevisionController(cast("Any", server), cache, PlanningView(cache), "tenon")
    async with in_background(controller.run()):
        await asyncio.sleep(MOMENT)
        yield server


async def test_nothing_is_recorded_without_a_rollout() -> None:
    async with recording() as server:
        server.put(with_user_data("echo 1"))
        await asyncio.sleep(MOMENT)
        assert (server.writes, server.digests()) == (0, [])


async def test_each_version_is_recorded_once_and_a_rollback_records_nothing() -> None:
    async with recording() as server:
        server.rollout()
        await asyncio.sleep(MOMENT)
        (first,) = server.digests()
        server.put(with_user_data("echo 1"))
        await asyncio.sleep(MOMENT)
        assert server.digests()[0] == first
        assert len(server.digests()) == 2
        server.put(with_user_data("echo 0"))
        await asyncio.sleep(MOMENT)
        assert len(server.digests()) == 2


async def test_versions_are_bounded_and_those_in_use_stay() -> None:
    async with recording() as server:
        server.rollout()
        await asyncio.sleep(MOMENT)
        (first,) = server.digests()
        server.rollout(phase="Halted", currentRevision=first)
        second = ""
        for number in range(1, MAX_REVISIONS + 5):
            server.put(with_user_data(f"echo {number}"))
            await asyncio.sleep(MOMENT)
            if number == 1:
                second = server.digests()[1]
                old = claim(
                    "a", meta={"labels": {labels.NODEPOOL: "default"}, "annotations": {labels.REVISION: second}}
                )
                server.cache.claims.on_event("a", old)
        await asyncio.sleep(2 * MOMENT)
        assert len(server.digests()) <= MAX_REVISIONS + 1
        assert {first, second} <= set(server.digests()), "one runs, and a node was launched with the other"


async def test_the_class_says_which_version_is_held_back_until_it_passed() -> None:
    async with recording() as server:
        server.rollout()
        await asyncio.sleep(MOMENT)
        (first,) = server.digests()
        server.rollout(phase="Settled", currentRevision=first)
        await asyncio.sleep(MOMENT)
        assert server.condition() == {}
        server.put(with_user_data("echo 1"))
        await asyncio.sleep(MOMENT)
        _, second = server.digests()
        assert server.condition()["message"] == (
            f"New nodes of NodePool default have version {first}, the last one that passed. NodeRollout nodes keeps "
            f"them from version {second}, which no rollout has reached yet"
        )
        server.cache.versions.rollouts.on_event("nodes", None)
        await asyncio.sleep(MOMENT)
        assert server.condition() == {}, "without the rollout, everything follows the specs"
