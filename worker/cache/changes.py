"""Notifies subscribers of changes in the cache: which keys to look at again, not what happened to them.

A key that changes several times between two reads is reported once, so a slow subscriber holds at most one entry for
each key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from enum import StrEnum
from types import TracebackType
from typing import Self


class Topic(StrEnum):
    """The kind of change, which says what a key names."""

    PENDING = "pending"
    """A pod (namespace/name) started or stopped waiting for capacity, is or was on a node that is leaving, or may have
    changed in what its volumes or its default topology spread require.
    """
    CLAIM = "claim"
    VANISHED_CLAIM = "vanished-claim"
    """A NodeClaim is gone although nothing here showed that it was being deleted."""
    NODE = "node"
    NODE_PODS = "node-pods"
    """A node (by name): its pods changed."""
    POOL = "pool"
    NODECLASS = "nodeclass"
    DAEMON = "daemon"
    NAMESPACE = "namespace"
    LEGACY = "legacy"
    """A Provisioner, AWSNodeTemplate or Machine (kind/name) was created, changed or deleted."""
    OVERLAY = "overlay"
    """A NodeOverlay was created or deleted, or its spec changed."""
    REPAIR_POLICY = "repair-policy"
    """A NodeRepairPolicy was created or deleted, or its spec changed."""
    FREEZE = "freeze"
    """A DisruptionFreeze was created or deleted, or its spec or what is known of its calendar changed."""
    SCHEDULE = "schedule"
    """A NodeSchedule was created or deleted, or what it asks for changed, other than by time."""
    ROLLOUT = "rollout"
    """A NodeRollout, or the record of a version of a NodePool, was created, changed or deleted."""
    BUFFER = "buffer"
    """A CapacityBuffer (namespace/name) was created or deleted, or its spec or that of what it refers to changed."""
    BUFFER_ROOM = "buffer-room"
    """Whether a CapacityBuffer has room, or which nodes it uses, changed."""


Change = tuple[Topic, str]


class Subscription:
    """The changes since the last read. Close it, or use it as a context manager."""

    def __init__(self, changes: Changes, topics: frozenset[Topic]) -> None:
        self._changes = changes
        self._topics = topics
        self._fresh: dict[Change, None] = {}
        self._arrived = asyncio.Event()

    def offer(self, change: Change) -> None:
        """Record a change. A key that changes again moves to the end."""
        if change[0] in self._topics:
            self._fresh.pop(change, None)
            self._fresh[change] = None
            self._arrived.set()

    def take(self) -> list[Change]:
        """The changes since the last read, oldest first. Empty if nothing changed."""
        fresh = list(self._fresh)
        self._fresh.clear()
        self._arrived.clear()
        return fresh

    async def next(self) -> list[Change]:
        """Wait until something changes, and return the changes."""
        await self._arrived.wait()
        return self.take()

    def close(self) -> None:
        """End the subscription."""
        self._changes.unsubscribe(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Changes:
    """Publishes changes to all subscriptions."""

    def __init__(self) -> None:
        self._subscriptions: list[Subscription] = []

    def subscribe(self, topics: Collection[Topic]) -> Subscription:
        """Subscribe to these topics."""
        subscription = Subscription(self, frozenset(topics))
        self._subscriptions.append(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription. Ending it twice is harmless."""
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)

    def publish(self, topic: Topic, key: str) -> None:
        """Publish that something about this key changed."""
        for subscription in self._subscriptions:
            subscription.offer((topic, key))
