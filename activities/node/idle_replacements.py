"""Finds the nodes that stand empty because they were bought for pods of a node whose drain is blocked.

The NodeClaims are listed at most once a minute, because in a large cluster the list is long and many drains may be
blocked at once. The pods of a found node are always read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import msgspec

from activities import loggers
from activities.ec2.errors import EC2Error
from activities.ec2.provider import Ec2Provider
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import NODECLAIMS
from activities.node.nodes import pods_on
from tenon.apis import labels
from tenon.kube.planned_pods import planned_pods
from tenon.kube.records import PodRecord
from tenon.node.idle_replacements import IdleNode, idle_sentence, is_empty, waits_for

log = loggers.NODECLAIM_LIFECYCLE

LISTED_FOR = timedelta(minutes=1)
"""How long a list of the NodeClaims is used."""
MOST_NODES = 20
"""How many nodes are looked at for one drain."""


class _Metadata(msgspec.Struct):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    deleted: str | None = msgspec.field(default=None, name="deletionTimestamp")


class _Status(msgspec.Struct):
    node_name: str = msgspec.field(default="", name="nodeName")


class _Claim(msgspec.Struct):
    """The fields of a NodeClaim that say which pods it was bought for, which Node it has, and what that costs."""

    metadata: _Metadata
    status: _Status = msgspec.field(default_factory=_Status)


class IdleReplacements:
    """Asks which nodes wait for the pods of blocked drains. Drains of one process share its lists."""

    def __init__(self, kube: Kube, ec2: Ec2Provider, now: Callable[[], datetime]) -> None:
        self._kube = kube
        self._ec2 = ec2
        self._now = now
        self._listing = asyncio.Lock()
        self._listed_at: datetime | None = None
        self._claims: list[_Claim] = []

    async def sentence(self, kept_pods: Sequence[PodRecord]) -> str:
        """Which nodes stand empty because they were bought for these pods; empty if none does, or if it is unknown."""
        try:
            return idle_sentence(await self._idle({pod.uid for pod in kept_pods}))
        except (ApiError, EC2Error) as error:
            log.info("The worker failed to look for nodes that wait for a blocked drain", extra={"error": str(error)})
            return ""

    async def _idle(self, kept_uids: set[str]) -> list[IdleNode]:
        idle: list[IdleNode] = []
        for claim in await self._bought_for_pods():
            count = waits_for(planned_pods(claim.metadata.annotations), kept_uids)
            if not count or len(idle) >= MOST_NODES:
                continue
            if is_empty(await pods_on(self._kube, claim.status.node_name, latest=False)):
                price = await asyncio.to_thread(self._price, claim.metadata.labels or {})
                idle.append(IdleNode(claim.status.node_name, count, price))
        return sorted(idle, key=lambda node: node.name)

    def _price(self, own: dict[str, str]) -> float:
        keys = (labels.INSTANCE_TYPE, labels.ZONE, labels.CAPACITY_TYPE, labels.TENANCY)
        instance_type, zone, capacity_type, tenancy = (own.get(key, "") for key in keys)
        return self._ec2.price(instance_type, zone, capacity_type, tenancy)

    async def _bought_for_pods(self) -> list[_Claim]:
        """The claims that have a Node, stay, and were launched for pods."""
        async with self._listing:
            now = self._now()
            if self._listed_at is None or now - self._listed_at > LISTED_FOR:
                claims = await self._kube.shared_list(NODECLAIMS, _Claim)
                self._claims = [
                    claim
                    for claim in claims
                    if claim.status.node_name
                    and claim.metadata.deleted is None
                    and (claim.metadata.annotations or {}).get(labels.PLANNED_PODS)
                ]
                self._listed_at = now
            return self._claims
