"""Finds the instance of a NodeClaim that was launched before its workflow started, or decides that it is lost.

After a takeover, or with a new Temporal namespace, this is asked for all nodes at once. EC2's answer may then be
incomplete, or be that of another region or account. So a claim whose Node is Ready keeps its node, like in a sweep, EC2
is asked a second time before a node leaves, and no node leaves while EC2 does not know many of the instances.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from activities import loggers
from activities.ec2.errors import EC2Error
from activities.ec2.provider import Ec2Provider
from activities.heartbeat import with_heartbeat
from activities.kubernetes.client import Kube
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.resources import NODECLAIMS, NODES
from tenon.apis import labels
from tenon.apis.managed import is_managed
from tenon.apis.nodeclaim import INSTANCE_TERMINATING, LAUNCHED
from tenon.disruption.repair.breaker import max_unhealthy
from tenon.garbage_collection.facts import ENDED_STATES, GONE_STATES
from tenon.kube.claim_record import ClaimRecord, instance_id_of
from tenon.kube.conditions import is_true
from tenon.kube.event_reasons import EventReason
from tenon.kube.timestamps import parse_instant
from tenon.messages.launch import Instance, LaunchWait

log = loggers.NODECLAIM_LIFECYCLE

SHOWS_WITHIN = timedelta(minutes=2)
"""How long after its launch an instance may exist although EC2 does not show it yet."""
UNKNOWN = EventReason.INSTANCE_UNKNOWN.value
"""The reason of the events about an instance that EC2 does not know although its node stays."""
COUNTED_FOR = timedelta(minutes=1)
"""How long a count of the instances that EC2 does not know is used."""
ASKS_AGAIN = timedelta(minutes=1)
"""How soon a claim asks again that is kept because EC2 does not know many instances."""
CHECK_ACCOUNT = "check that Tenon runs in the account and the region of the cluster"


def launched_recently(claim: ClaimRecord, now: datetime) -> bool:
    """Whether EC2 may not show the claim's instance yet."""
    return claim.launched_at is not None and now - claim.launched_at < SHOWS_WITHIN


@dataclass(frozen=True, slots=True)
class Search:
    """The living instance of a claim, why it is lost, or why that is undecided. All are empty without a launch."""

    instance: Instance | None = None
    lost: str = ""
    waits: LaunchWait | None = None


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""
    since: str | None = msgspec.field(default="", name="lastTransitionTime")


class _Status(msgspec.Struct):
    provider_id: str = msgspec.field(default="", name="providerID")
    conditions: list[_Condition] | None = None


class _Spec(msgspec.Struct):
    reference: dict[str, Any] | None = msgspec.field(default=None, name="nodeClassRef")


class _Claim(msgspec.Struct):
    """The fields of a NodeClaim that say which instance it has and since when."""

    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)

    def is_due(self, now: datetime) -> bool:
        """Whether EC2 must know its instance."""
        since = {
            condition.type: condition.since for condition in self.status.conditions or () if condition.status == "True"
        }
        launched = parse_instant(since.get(LAUNCHED))
        return (
            is_managed(self.spec.reference)
            and INSTANCE_TERMINATING not in since
            and launched is not None
            and now - launched >= SHOWS_WITHIN
        )


class LostInstances:
    """Looks for the instances that NodeClaims name. Claims that ask at the same time share one count."""

    def __init__(self, kube: Kube, recorder: EventPublisher, ec2: Ec2Provider, now: Callable[[], datetime]) -> None:
        self._kube = kube
        self._recorder = recorder
        self._ec2 = ec2
        self._now = now
        self._counting = asyncio.Lock()
        self._counted_at: datetime | None = None
        self._too_many = ""

    async def search(self, claim: ClaimRecord) -> Search:
        """Find the instance that the claim names.

        Raises:
            EC2Error: EC2 did not answer, or does not show the instance yet.
        """
        instance_id = claim.instance_id
        state = await self._state(instance_id)
        if state is None and launched_recently(claim, self._now()):
            raise EC2Error("InvalidInstanceID.NotFound", f"EC2 does not show {instance_id} yet", retryable=True)
        if state in ENDED_STATES and await self._is_ready(claim):
            return Search(instance=await self._of_ready_node(claim))
        if state is None:
            state = await self._state(instance_id)
        if state is None and (why := await with_heartbeat(self._why_kept())):
            message = f"instance {instance_id} is unknown to EC2, but {why}"
            await self._recorder.publish(claim.body, EventReason.INSTANCE_UNKNOWN, message)
            not_before = self._now() + ASKS_AGAIN
            return Search(waits=LaunchWait(reason=UNKNOWN, message=message, launched=True, not_before=not_before))
        if state in GONE_STATES:
            return Search(lost=f"instance {instance_id} is {state or 'unknown to EC2'}: the node cannot be used")
        instance = await with_heartbeat(asyncio.to_thread(self._ec2.describe_instance, instance_id))
        if instance is None:
            message = f"EC2 showed {instance_id} a moment ago and does not describe it now"
            raise EC2Error("InvalidInstanceID.NotFound", message, retryable=True)
        return Search(instance=instance)

    async def _state(self, instance_id: str) -> str | None:
        return await with_heartbeat(asyncio.to_thread(self._ec2.instance_state, instance_id))

    async def _is_ready(self, claim: ClaimRecord) -> bool:
        node = await self._kube.get(NODES, claim.node_name) if claim.registered and claim.node_name else None
        return node is not None and is_true(node, "Ready")

    async def _of_ready_node(self, claim: ClaimRecord) -> Instance:
        """The instance of a node that runs although EC2 says otherwise, as EC2 or else the claim describes it."""
        message = (
            f"EC2 does not know instance {claim.instance_id} or calls it terminated, but Node {claim.node_name} "
            f"is Ready: the node stays. If it lasts, {CHECK_ACCOUNT}"
        )
        await self._recorder.publish(claim.body, EventReason.INSTANCE_UNKNOWN, message)
        log.warning(
            "EC2 does not know the instance of a Ready node, which stays",
            extra={"nodeclaim": claim.name, "node": claim.node_name, "instance": claim.instance_id},
        )
        described = await with_heartbeat(asyncio.to_thread(self._ec2.describe_instance, claim.instance_id))
        return described if described is not None else await with_heartbeat(asyncio.to_thread(self._recorded, claim))

    def _recorded(self, claim: ClaimRecord) -> Instance:
        instance_type, zone, capacity_type, tenancy = (
            claim.labels.get(key, "")
            for key in (labels.INSTANCE_TYPE, labels.ZONE, labels.CAPACITY_TYPE, labels.TENANCY)
        )
        return Instance(
            id=claim.instance_id,
            provider_id=claim.provider_id,
            instance_type=instance_type,
            zone=zone,
            capacity_type=capacity_type,
            image_id=claim.image_id,
            price=self._ec2.price(instance_type, zone, capacity_type, tenancy),
            launched_at=claim.launched_at,
            reservation_id=claim.labels.get(labels.RESERVATION_ID, ""),
            reservation_type=claim.labels.get(labels.RESERVATION_TYPE, ""),
            reservation_interruptible=claim.labels.get(labels.RESERVATION_INTERRUPTIBLE) == "true",
        )

    async def _why_kept(self) -> str:
        """Why no claim counts as lost, because EC2 does not know many instances; empty if it knows most of them."""
        async with self._counting:
            if self._counted_at is None or self._now() - self._counted_at > COUNTED_FOR:
                self._too_many = await self._count()
                self._counted_at = self._now()
            return self._too_many

    async def _count(self) -> str:
        claims = await self._kube.shared_list(NODECLAIMS, _Claim)
        claimed_ids = {instance_id_of(claim.status.provider_id) for claim in claims if claim.is_due(self._now())} - {""}
        states = await asyncio.to_thread(self._ec2.states, sorted(claimed_ids))
        unknown = claimed_ids - states.keys()
        if len(unknown) <= max_unhealthy(len(claimed_ids)):
            return ""
        log.warning(
            "EC2 does not know many instances, so no node leaves for that until a person decides",
            extra={"unknown-count": len(unknown), "instance-count": len(claimed_ids)},
        )
        return (
            f"so are {len(unknown)} of {len(claimed_ids)} in the cluster, so no node leaves for that: {CHECK_ACCOUNT},"
            " and delete the NodeClaims whose instances are really gone"
        )
