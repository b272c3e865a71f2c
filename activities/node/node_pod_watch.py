"""Shows when the API server's watches have sent the pods that were bound to a node.

kube-scheduler learns from a watch which room on a node is taken. On a busy API server, watches are seconds late. Tenon
cannot see kube-scheduler's watch, so it opens one of its own, which the API server serves from the same cache.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import aclosing
from types import TracebackType
from typing import Self

import msgspec

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import PODS

OPEN_SECONDS = 60
"""The API server ends the watch after this time, if nothing else does."""


class _Metadata(msgspec.Struct):
    uid: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Event(msgspec.Struct):
    type: str = ""
    object: _Pod = msgspec.field(default_factory=_Pod)


_events = msgspec.json.Decoder(_Event)


class NodePodWatch:
    """A watch of the pods of one node. Open it before pods are bound, so that it gets them as other watches do."""

    def __init__(self, kube: Kube, node_name: str) -> None:
        self._kube = kube
        self._node = node_name
        self._uids: set[str] = set()
        self._news = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._reading = asyncio.create_task(self._read(), name=f"pods of {self._node}")
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def shows(self, uids: Collection[str], within: float) -> bool:
        """Wait until the watch has shown all these pods. Return False if it has not after ``within`` seconds."""
        try:
            async with asyncio.timeout(within):
                while not self._uids.issuperset(uids):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return False
        return True

    async def _read(self) -> None:
        while True:
            try:
                await self._read_once()
            except (ApiError, msgspec.DecodeError):
                await asyncio.sleep(1.0)  # the watch may be refused while the API server is busy

    async def _read_once(self) -> None:
        # Version 0: the answer begins with what the API server's cache holds, and does not ask etcd.
        selector = f"spec.nodeName={self._node}"
        query = {
            "watch": "true",
            "resourceVersion": "0",
            "fieldSelector": selector,
            "timeoutSeconds": str(OPEN_SECONDS),
        }
        lines = self._kube.stream(PODS.path(), query, idle_seconds=OPEN_SECONDS)
        async with aclosing(lines) as stream:  # type: ignore[type-var]
            async for line in stream:
                event = _events.decode(line)
                if event.object.metadata.uid:
                    self._uids.add(event.object.metadata.uid)
                    self._news.set()
