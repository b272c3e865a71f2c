"""Checks that a launch group is complete. Only then may one request buy instances for all of its NodeClaims.

A group lacks members if the planner died or the API server refused some of the claims. One request for the group would
then buy more instances than there are claims, so the claims of an incomplete group launch individually.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from activities.ec2.provider import Ec2Provider
from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS
from tenon.apis import labels
from tenon.kube.claim_record import ClaimRecord
from tenon.lifecycle.messages.launch import Instance, LaunchGroup
from tenon.provisioning.launch_groups import group_of, whole_groups

WRITTEN_WITHIN = timedelta(seconds=10)
"""A group that is still incomplete this long after one of its members was created is not completed any more."""
POLL_SECONDS = 0.3
MAX_CACHED = 1000
"""The maximum number of groups remembered as complete, and of groups remembered as refused."""


class LaunchGroups:
    """The launch groups of one process. Members that ask at the same time share one list request per batch."""

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

    async def wait_complete(self, claim: ClaimRecord) -> LaunchGroup | None:
        """Wait for the claim's group to be complete and return it, or None if the claim launches alone."""
        group, created = group_of(claim.annotations), claim.created_at
        batch = claim.labels.get(labels.BATCH, "")
        if group is None or not batch or created is None:
            return None
        looking = self._looking.setdefault(batch, asyncio.Lock())
        try:
            async with looking:
                while group.id not in self._whole:
                    late = self._now() - created > WRITTEN_WITHIN
                    await self._read(batch, group)
                    if group.id not in self._whole and late:
                        return None
                    if group.id not in self._whole:
                        await self._pause(POLL_SECONDS)
        finally:
            if not looking.locked():
                self._looking.pop(batch, None)
        return group

    def leave(self, group: LaunchGroup) -> None:
        """Record that EC2 refused the group's request. Its members launch alone, and none may send the request again.

        A refused request does not use up its client token: sent again, it would also buy instances for members that
        have launched alone.
        """
        self._left[group.id] = None
        while len(self._left) > MAX_CACHED:
            del self._left[next(iter(self._left))]

    def is_left(self, group: LaunchGroup) -> bool:
        """Whether EC2 refused the group's request."""
        return group.id in self._left

    async def _read(self, batch: str, wanted: LaunchGroup) -> None:
        there = await self._kube.list(NODECLAIMS, label_selector=f"{labels.BATCH}={batch}")
        for group in whole_groups(ClaimRecord.of(claim).annotations for claim in there):
            self._whole[group] = None
        while len(self._whole) > MAX_CACHED and next(iter(self._whole)) != wanted.id:
            del self._whole[next(iter(self._whole))]


def in_group(claim: ClaimRecord) -> bool:
    """Whether a claim belongs to a launch group. Its instance then gets the claim's tags only after the launch."""
    return group_of(claim.annotations) is not None


async def living_instance(ec2: Ec2Provider, name: str, claim: ClaimRecord | None) -> Instance | None:
    """Find the living instance of a NodeClaim without a provider ID, by its tag or its place in the launch group."""
    found = await asyncio.to_thread(ec2.find_instance, name)
    group = group_of(claim.annotations) if claim is not None else None
    if found is not None or group is None:
        return found
    return await asyncio.to_thread(ec2.group_instance, group, name)
