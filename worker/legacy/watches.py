"""Watches Provisioners, AWSNodeTemplates and Machines.

Most clusters have none, and many do not even have their CRDs. In that case nothing is read and nothing fails; the
worker checks periodically whether the CRDs have been installed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from activities import loggers
from activities.kubernetes.client import Kube
from activities.kubernetes.resources import AWSNODETEMPLATES, MACHINES, PROVISIONERS, Resource
from tenon.kube.decode import decode_object
from tenon.kube.records import ObjectRecord
from worker.cache.changes import Changes, Topic
from worker.cache.reflector import SILENCE_SECONDS, Reflector
from worker.cache.served import RECHECK_SECONDS, served
from worker.cache.table import Table
from worker.log_rate_limit import LogRateLimiter

log = loggers.LEGACY


class LegacyObjects:
    """The tables ``provisioners``, ``templates`` and ``machines``. `run` keeps them up to date."""

    def __init__(self, kube: Kube, changes: Changes, *, silence_limit: float = SILENCE_SECONDS) -> None:
        """Every change is published to ``changes`` under `Topic.LEGACY`."""
        self._kube = kube
        self._changes = changes
        self._silence_limit = silence_limit
        self._log_limiter = LogRateLimiter()
        self.provisioners: Table[ObjectRecord] = Table(self._listener(PROVISIONERS))
        self.templates: Table[ObjectRecord] = Table(self._listener(AWSNODETEMPLATES))
        self.machines: Table[ObjectRecord] = Table(self._listener(MACHINES))
        self._tables = {
            PROVISIONERS: self.provisioners,
            AWSNODETEMPLATES: self.templates,
            MACHINES: self.machines,
        }
        self._events = {resource: asyncio.Event() for resource in self._tables}

    async def run(self) -> None:
        """Watch the kinds that the API server serves, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for resource, table in self._tables.items():
                group.create_task(self._follow(resource, table), name=f"reflect {resource.plural}")

    @property
    def any_exists(self) -> bool:
        """Whether any old object exists."""
        return any(len(table) for table in self._tables.values())

    async def wait_known(self) -> None:
        """Wait until each kind has been read completely once, or is known not to be served."""
        for reflector in self._events.values():
            await reflector.wait()

    async def _follow(self, resource: Resource, table: Table[ObjectRecord]) -> None:
        while not await served(self._kube, resource, self._log_limiter):
            self._events[resource].set()
            await asyncio.sleep(RECHECK_SECONDS)
        log.info(
            "The worker reads objects of an older API", extra={"kind": resource.kind, "version": resource.api_version}
        )
        reflector = Reflector(self._kube, resource, decode_object, table, silence_limit=self._silence_limit)
        async with asyncio.TaskGroup() as group:
            group.create_task(reflector.run(), name=f"reflect {resource.plural}")
            await reflector.synced.wait()
            self._events[resource].set()

    def _listener(self, resource: Resource) -> Callable[[str, object, object], None]:
        return partial(self._publish, resource.kind)

    def _publish(self, kind: str, key: str, _before: object, _after: object) -> None:
        self._changes.publish(Topic.LEGACY, f"{kind}/{key}")
