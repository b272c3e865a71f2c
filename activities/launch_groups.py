"""Whether the launch group of a NodeClaim is there as it was planned: only then one request may buy for all of it.

A planner that died, or an API server that refused some claims, leaves a group without some of its members. Its request
would then buy more instances than there are claims. Such claims launch on their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from activities.ec2.provider import Ec2Provider
from activities.kubernetes.client import Kube, Object
from activities.kubernetes.resources import NODECLAIMS
from tenon.apis import labels
from tenon.kube.timestamps import parse_instant
from tenon.lifecycle.messages import Instance, LaunchGroup
from tenon.provisioning.launch_groups import group_of, members_there

WRITTEN_WITHIN = timedelta(seconds=10)
"""A group that is not whole so long after one of its members was written stays incomplete."""
LOOK_SECONDS = 0.3
MOST_REMEMBERED = 1000
"""Groups that are known to be whole."""


class LaunchGroups:
    """The groups of one process. Members that ask at the same time share the list of their batch."""

    def __init__(
        self,
        kube: Kube,
        now: Callable[[], datetime],
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._kube = kube
        self._now = now
        self._pause = pause
        self._whole: dict[str, None] = {}
        self._left: dict[str, None] = {}
        self._looking: dict[str, asyncio.Lock] = {}

    async def whole(self, claim: Object) -> LaunchGroup | None:
        """The group that a claim is launched with, once all its members are there; None when it launches alone."""
        metadata = claim["metadata"]
        group = group_of(metadata.get("annotations") or {})
        batch = (metadata.get("labels") or {}).get(labels.BATCH, "")
        created = parse_instant(metadata.get("creationTimestamp"))
        if group is None or not batch or created is None:
            return None
        looking = self._looking.setdefault(batch, asyncio.Lock())
        try:
            async with looking:
                while group.id not in self._whole:
                    late = self._now() - created > WRITTEN_WITHIN
                    await self._look(batch, group)
                    if group.id not in self._whole and late:
                        return None
                    if group.id not in self._whole:
                        await self._pause(LOOK_SECONDS)
        finally:
            if not looking.locked():
                self._looking.pop(batch, None)
        return group

    def leave(self, group: LaunchGroup) -> None:
        """EC2 refused the group's request: its members launch alone, and none may send the request any more.

        A refused request does not use up its token: sent once more it would buy for those who launched alone, too.
        """
        self._left[group.id] = None
        while len(self._left) > MOST_REMEMBERED:
            del self._left[next(iter(self._left))]

    def is_left(self, group: LaunchGroup) -> bool:
        """Whether the group's request was refused."""
        return group.id in self._left

    async def _look(self, batch: str, wanted: LaunchGroup) -> None:
        there = await self._kube.list(NODECLAIMS, label_selector=f"{labels.BATCH}={batch}")
        counts = members_there(there)
        for claim in there:
            group = group_of(claim["metadata"].get("annotations") or {})
            if group is not None and counts[group.id] >= group.size:
                self._whole[group.id] = None
        while len(self._whole) > MOST_REMEMBERED and next(iter(self._whole)) != wanted.id:
            del self._whole[next(iter(self._whole))]


def in_group(claim: Object) -> bool:
    """Whether a claim is of a launch group: the tags of its instance name it only once they were written for it."""
    return group_of(claim["metadata"].get("annotations") or {}) is not None


async def bought_for(ec2: Ec2Provider, name: str, claim: Object | None) -> Instance | None:
    """The living instance of a NodeClaim that names none: by its tag, else by its place in its launch group."""
    found = await asyncio.to_thread(ec2.find_instance, name)
    group = group_of(claim["metadata"].get("annotations") or {}) if claim is not None else None
    if found is not None or group is None:
        return found
    return await asyncio.to_thread(ec2.group_instance, group, name)
