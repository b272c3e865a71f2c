"""Checks whether a launch group is complete. Only then may one request buy instances for all of its NodeClaims.

A group lacks members if the planner died or the API server refused some of the claims. One request for the group would
then buy more instances than there are claims, so the claims of an incomplete group launch individually.

The same holds if a member leaves before the group's request is sent, and once a claim has launched apart from its
group, because EC2 refused the group's request: a refused request does not use up its client token. Each such claim says
so in its annotations, which other processes read before they send the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from activities.ec2.errors import EC2Error
from activities.ec2.provider import Ec2Provider
from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS
from activities.node.lost_instances import SHOWS_WITHIN
from tenon.apis import labels
from tenon.kube.claim_record import ClaimRecord
from tenon.messages.launch import Instance, LaunchGroup
from tenon.provisioning.launch_groups import broken_groups, group_of, whole_groups

WRITTEN_WITHIN = timedelta(seconds=10)
"""A group that is still incomplete this long after one of its members was created is not completed any more."""
POLL_SECONDS = 0.3
READ_FOR = timedelta(seconds=2)
"""How long a read of a batch also tells which groups were left. It is shorter than the pause before a claim whose group
was refused launches again."""
MAX_CACHED = 1000
"""The maximum number of groups remembered as complete, as left or as accepted."""


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
        self._whole: dict[str, bool] = {}
        """By group that was complete: whether it was so late that another process may have given it up meanwhile."""
        self._former_groups: dict[str, None] = {}
        self._accepted: dict[str, None] = {}
        self._looking: dict[str, asyncio.Lock] = {}
        self._read_at: dict[str, datetime] = {}
        self._broken: dict[str, set[str]] = {}
        """By batch, the groups that lacked a member when it was read last, also those that are still being written."""

    async def wait_complete(self, claim: ClaimRecord) -> LaunchGroup | None:
        """Wait for the claim's group to be complete and return it, or None if the claim launches alone."""
        group, created = group_of(claim.annotations), claim.created_at
        batch = claim.labels.get(labels.BATCH, "")
        if group is None or not batch or created is None:
            return None
        async with self._lock(batch):
            while group.id not in self._whole:
                late = self._now() - created > WRITTEN_WITHIN
                await self._read(batch, group)
                if group.id not in self._whole and late:
                    self.leave(group)  # its last member may be written in this moment, and find the group complete
                    return None
                if group.id not in self._whole:
                    await self._pause(POLL_SECONDS)
        return group

    def leave(self, group: LaunchGroup) -> None:
        """Record that the group stayed incomplete, or that EC2 refused its request. Its members launch alone, and none
        may send that request.
        """
        _remember(self._former_groups, group.id)

    def accepted(self, group: LaunchGroup) -> None:
        """Record that EC2 accepted the group's request. To repeat it buys nothing."""
        _remember(self._accepted, group.id)

    @asynccontextmanager
    async def _lock(self, batch: str) -> AsyncIterator[None]:
        """Let one caller at a time read the batch, so that the others use what it read."""
        looking = self._looking.setdefault(batch, asyncio.Lock())
        try:
            async with looking:
                yield
        finally:
            if not looking.locked():
                self._looking.pop(batch, None)

    async def is_left(
        self, claim: ClaimRecord, group: LaunchGroup, *, unsettled: bool = False, fresh: bool = False
    ) -> bool:
        """Whether members of the claim's group, which was complete, launch alone: one left, or EC2 refused the group.

        A read of the claims is used for `READ_FOR`; if ``fresh``, and the group was complete late, only by callers that
        asked before it began. Most groups are complete early, and each read is of a whole batch.
        ``unsettled``: the group's request may have bought an instance for each member already, so it may be repeated
        although members left.
        """
        asked_at = self._now()
        batch = claim.labels.get(labels.BATCH, "")
        if batch and group.id not in self._former_groups and group.id not in self._accepted:
            async with self._lock(batch):
                read_at = self._read_at.get(batch)
                oldest = asked_at if fresh and self._whole.get(group.id, True) else self._now() - READ_FOR
                if read_at is None or read_at < oldest:
                    await self._read(batch, group)
            if not unsettled and group.id in self._broken.get(batch, ()):
                _remember(self._former_groups, group.id)
        return group.id in self._former_groups

    async def _read(self, batch: str, launch_group: LaunchGroup) -> None:
        began = self._now()
        listed = await self._kube.list(NODECLAIMS, label_selector=f"{labels.BATCH}={batch}")
        claims = [ClaimRecord.of(claim) for claim in listed]
        late_groups: set[str] = set()
        for claim in claims:
            if (member := group_of(claim.annotations)) is None:
                continue
            if claim.launch_attempt:
                _remember(self._former_groups, member.id)
            if claim.created_at is None or began - claim.created_at > WRITTEN_WITHIN - READ_FOR:
                late_groups.add(member.id)
        for group in whole_groups(claim.annotations for claim in claims):
            self._whole.setdefault(group, group in late_groups)
        while len(self._whole) > MAX_CACHED and next(iter(self._whole)) != launch_group.id:
            del self._whole[next(iter(self._whole))]
        self._read_at = {batch_id: at for batch_id, at in self._read_at.items() if began - at <= READ_FOR} | {
            batch: began
        }
        self._broken = {batch_id: groups for batch_id, groups in self._broken.items() if batch_id in self._read_at}
        self._broken[batch] = broken_groups(claims)


def _remember(groups: dict[str, None], group: str) -> None:
    groups[group] = None
    while len(groups) > MAX_CACHED:
        del groups[next(iter(groups))]


def in_group(claim: ClaimRecord) -> bool:
    """Whether a claim belongs to a launch group. Its instance then gets the claim's tags only after the launch."""
    return group_of(claim.annotations) is not None


async def living_instance(ec2: Ec2Provider, name: str, claim: ClaimRecord | None, now: datetime) -> Instance | None:
    """Find the living instance of a NodeClaim without a provider ID, by its tag or its place in the launch group.

    Raises:
        EC2Error: the group has just bought it, and EC2 does not show it yet.
    """
    instance = await asyncio.to_thread(ec2.find_instance, name)
    group = group_of(claim.annotations) if claim is not None else None
    if instance is not None or group is None:
        return instance
    outcome = await asyncio.to_thread(ec2.group_outcome, group, name)
    if outcome.hidden_since is not None and now - outcome.hidden_since < SHOWS_WITHIN:
        message = f"EC2 does not show the instance yet that launch group {group.id} bought for NodeClaim {name}"
        raise EC2Error("InvalidInstanceID.NotFound", message, retryable=True)
    return outcome.instance
