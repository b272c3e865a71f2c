"""News of the cache for those who act on it: which keys to look at again, never what happened to them.

However often a key changes between two looks it is told once, so a slow reader holds as many entries as there are
keys and no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from enum import StrEnum
from types import TracebackType
from typing import Self


class Topic(StrEnum):
    """What a key is the name of."""

    PENDING = "pending"
    """A pod (namespace/name) began or ceased to wait for capacity, is or was on a node on its way out, or what its
    volumes or its default spread ask may have changed."""
    CLAIM = "claim"
    NODE = "node"
    NODE_PODS = "node-pods"
    """A node's name: what runs there changed."""
    POOL = "pool"
    NODECLASS = "nodeclass"
    DAEMON = "daemon"
    NAMESPACE = "namespace"
    LEGACY = "legacy"
    """A Provisioner, AWSNodeTemplate or Machine (kind/name) came, went, or says something else."""
    OVERLAY = "overlay"
    """A NodeOverlay came, went, or says something else."""
    BUFFER = "buffer"
    """A CapacityBuffer (namespace/name) came, went, or says something else."""
    BUFFER_ROOM = "buffer-room"
    """Whether a CapacityBuffer has room, or which nodes it is on, changed."""


Change = tuple[Topic, str]


class Subscription:
    """The changes since the last look. Close it, or use it as a context manager."""

    def __init__(self, changes: Changes, topics: frozenset[Topic]) -> None:
        self._changes = changes
        self._topics = topics
        self._fresh: dict[Change, None] = {}
        self._arrived = asyncio.Event()

    def offer(self, change: Change) -> None:
        """Notes a change; the newest stands last."""
        if change[0] in self._topics:
            self._fresh.pop(change, None)
            self._fresh[change] = None
            self._arrived.set()

    def take(self) -> list[Change]:
        """What changed since the last look, oldest first; nothing if nothing did."""
        fresh = list(self._fresh)
        self._fresh.clear()
        self._arrived.clear()
        return fresh

    async def next(self) -> list[Change]:
        """Waits until something changed and takes it."""
        await self._arrived.wait()
        return self.take()

    def close(self) -> None:
        """Ends the subscription."""
        self._changes.unsubscribe(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Changes:
    """All subscriptions."""

    def __init__(self) -> None:
        self._subscriptions: list[Subscription] = []

    def subscribe(self, topics: Collection[Topic]) -> Subscription:
        """News of these topics from now on; of every topic when none is named."""
        subscription = Subscription(self, frozenset(topics or Topic))
        self._subscriptions.append(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Ends a subscription; again is harmless."""
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)

    def tell(self, topic: Topic, key: str) -> None:
        """Something about this key changed."""
        for subscription in self._subscriptions:
            subscription.offer((topic, key))
