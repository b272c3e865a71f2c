"""A client for tests: it waits longer for a slow API server, and watches what conditions of `until` read.

Conditions are evaluated when something has changed. Reading ten times a second took a third of the API server's
processor time in tests, and still came late.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

import aiohttp

from activities.kubernetes.access import Access
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import Resource
from tenon.apis.json_object import JsonObject
from tests.workflows.waiting import Changing, reads

RETRY_SECONDS = 0.5
"""Tests stop the API server, and some definitions do not exist yet."""
HOUR = 3600.0
LONGER = 10.0
"""How many times longer than the product this client waits. A workflow repeats a call that times out, but a test would
fail, although only the machine was slow for some minutes.
"""


class WatchingKube(Kube):
    """Watches each resource from the first time that it is read until the client is closed."""

    def __init__(self, access: Access, **options: Any) -> None:
        super().__init__(access, **options)
        self._watched: dict[Resource, tuple[Changing, asyncio.Task[None]]] = {}

    async def get(
        self, resource: Resource, name: str, namespace: str = "", *, not_older_than: str = ""
    ) -> JsonObject | None:
        """The object, or None if it does not exist."""
        self._reads(resource)
        return await super().get(resource, name, namespace, not_older_than=not_older_than)

    async def list(self, resource: Resource, **options: Any) -> list[JsonObject]:
        """All objects that match."""
        self._reads(resource)
        return await super().list(resource, **options)

    async def close(self) -> None:
        """End the watches, then the connections."""
        tasks = [task for _, task in self._watched.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await super().close()

    async def request(self, method: str, path: str, **options: Any) -> bytes:
        """Send a request, and repeat a GET that timed out in the API server, as a workflow does."""
        for _ in range(int(LONGER) - 1):
            try:
                return await super().request(method, path, **options)
            except ApiError as error:
                if method != "GET" or error.status != HTTPStatus.GATEWAY_TIMEOUT:
                    raise
        return await super().request(method, path, **options)

    async def _send(
        self, method: str, path: str, limits: aiohttp.ClientTimeout, **content: Any
    ) -> aiohttp.ClientResponse:
        longer = aiohttp.ClientTimeout(
            total=limits.total and limits.total * LONGER,
            sock_connect=limits.sock_connect and limits.sock_connect * LONGER,
            sock_read=limits.sock_read,
        )
        return await super()._send(method, path, longer, **content)

    def _reads(self, resource: Resource) -> None:
        if resource not in self._watched:
            changing = Changing()
            task = asyncio.create_task(self._watch(resource, changing), name=f"watch {resource.plural} for conditions")
            self._watched[resource] = (changing, task)
        reads(self._watched[resource][0])

    async def _watch(self, resource: Resource, changing: Changing) -> None:
        while True:
            try:
                async for _ in self.stream(resource.path(), {"watch": "true"}, idle_seconds=HOUR):
                    changing.changed()
            except ApiError:
                await asyncio.sleep(RETRY_SECONDS)
            changing.changed()
