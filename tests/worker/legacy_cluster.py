"""Old objects in a cluster that is played from memory, and the worker's controller that has looked at them."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import itertools
import json
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

from activities.kubernetes.errors import ApiError, ConflictError
from activities.kubernetes.resources import (
    AWSNODETEMPLATES,
    EC2NODECLASSES,
    MACHINES,
    NODEPOOLS,
    PROVISIONERS,
    Resource,
)
from tenon.apis.legacy.awsnodetemplate import Defaults
from tenon.kube.decode import decode_object
from tests.activities.node.fake_kube import Recorder
from tests.tenon.apis.legacy.older_objects import patched
from tests.worker.background import in_background
from tests.worker.fake_temporal import MOMENT, Cache
from worker.cache.table import Table
from worker.controllers.legacy.legacy_api import LegacyApiController
from worker.legacy.watches import LegacyObjects


class KnownObjects(LegacyObjects):
    """Old objects that nobody has to read first."""

    async def wait_known(self) -> None:
        return


class Cluster:
    """An API server whose objects are in the tables at once, as if watches took no time."""

    def __init__(self) -> None:
        self.cache, self.recorder = Cache(), Recorder()
        self.old = KnownObjects(cast("Any", None), self.cache.changes)
        self.tables: dict[str, Table[Any]] = {
            NODEPOOLS.plural: self.cache.pools,
            EC2NODECLASSES.plural: self.cache.nodeclasses,
            PROVISIONERS.plural: self.old.provisioners,
            AWSNODETEMPLATES.plural: self.old.templates,
            MACHINES.plural: self.old.machines,
        }
        self.writes: list[tuple[str, str, str]] = []
        self.broken: set[str] = set()
        self.policy: ApiError | None = None
        self.dropped: dict[str, tuple[str, ...]] = {}
        """By kind: the parts of its status that its CRD does not know."""
        self.admission: Callable[[Resource, dict[str, Any]], None] = lambda _resource, _body: None
        """Changes a body on its way in."""
        self.fresh: dict[str, dict[str, Any]] = {}
        """What is read by name and no watch has told yet."""
        self._numbers = itertools.count(1)

    def put(self, resource: Resource, body: dict[str, Any]) -> dict[str, Any]:
        stored = copy.deepcopy(body)
        metadata = stored["metadata"]
        metadata["resourceVersion"] = str(next(self._numbers))
        metadata.setdefault("uid", f"uid-{metadata['resourceVersion']}")
        metadata.setdefault("generation", 1)
        self.tables[resource.plural].on_event(metadata["name"], decode_object(json.dumps(stored).encode()))
        return stored

    def edit(self, resource: Resource, name: str, spec: dict[str, Any]) -> None:
        """As a user would, who knows nothing of versions."""
        body = copy.deepcopy(self.body(resource, name))
        body["spec"] = spec
        body["metadata"]["generation"] += 1
        self.put(resource, body)

    def body(self, resource: Resource, name: str) -> dict[str, Any]:
        result = self.tables[resource.plural].get(name)
        assert result is not None, f"no {resource.kind} {name}"
        return dict(result.body)

    def names(self, resource: Resource) -> list[str]:
        return sorted(record.name for record in self.tables[resource.plural])

    def condition(self, resource: Resource, name: str, kind: str) -> dict[str, Any]:
        result = self.tables[resource.plural].get(name)
        assert result is not None
        return dict(result.condition(kind))

    def go(self, resource: Resource, name: str) -> None:
        """Deleted, as the garbage collector or a user does."""
        self.tables[resource.plural].on_event(name, None)

    async def create(self, resource: Resource, body: dict[str, Any]) -> dict[str, Any]:
        name = body["metadata"]["name"]
        if self.policy is not None:
            raise self.policy
        if name in self.broken:
            raise ApiError(500, "InternalError", "etcd is away")
        if name in self.tables[resource.plural]:
            raise ConflictError(409, "AlreadyExists", "it is there")
        self.writes.append(("create", resource.kind, name))
        stored = copy.deepcopy(body)
        self.admission(resource, stored)
        return self.put(resource, stored)

    async def get(self, resource: Resource, name: str) -> dict[str, Any] | None:
        result = self.tables[resource.plural].get(name)
        return copy.deepcopy(self.fresh.get(name) or (dict(result.body) if result is not None else None))

    async def patch(
        self, resource: Resource, name: str, patch: Any, *, subresource: str = "", kind: str = "merge"
    ) -> dict[str, Any]:
        if name in self.broken:
            raise ApiError(500, "InternalError", "etcd is away")
        self.writes.append((f"patch {subresource or kind}", resource.kind, name))
        body = copy.deepcopy(self.body(resource, name))
        if kind == "json":
            body = patched(body, patch)
        else:
            for part, fields in patch.items():
                dropped = self.dropped.get(resource.kind, ())
                body[part] = {**body.get(part, {}), **{k: v for k, v in fields.items() if k not in dropped}}
        self.admission(resource, body)
        if body == self.body(resource, name):
            return body  # the version stays, and no watch tells of it
        return self.put(resource, body)


@contextlib.asynccontextmanager
async def keeping(*old: tuple[Resource, dict[str, Any]], broken: str = "") -> AsyncIterator[Cluster]:
    """A controller that has looked at these objects."""
    cluster = Cluster()
    cluster.broken = {broken}
    for resource, body in old:
        cluster.put(resource, body)
    async with leading(cluster):
        yield cluster


@contextlib.asynccontextmanager
async def leading(cluster: Cluster) -> AsyncIterator[None]:
    """A new leader's controller that has looked at the objects of the cluster."""
    controller = LegacyApiController(
        cast("Any", cluster), cluster.recorder, cluster.cache, cluster.old, Defaults(cluster="c")
    )
    async with in_background(controller.run()):
        await looked()
        yield


async def looked() -> None:
    """After the controller has come to rest."""
    await asyncio.sleep(10 * MOMENT)
