"""The notices in the interruption queue: what AWS says about instances, and what Tenon does about it (AWS-140..149).

EventBridge writes the messages. Anybody who may send to the queue can write one too, so nothing in a body is trusted.
What EC2 can confirm must be confirmed (`is_confirmed`). A body that is not such an event raises
`MalformedNoticeError`, and an event that Tenon does not know is `NoticeKind.NO_OP`.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from tenon.apis import labels
from tenon.errors import TenonError
from tenon.kube.event_reasons import EventReason
from tenon.kube.timestamps import parse_instant

VERSION = "0"
"""The version of EventBridge's events (AWS-149)."""
_INSTANCE_ID = re.compile(r"i-[0-9a-f]{8,17}")
_MAX_REASON = 200


class MalformedNoticeError(TenonError):
    """A message in the interruption queue is not an EventBridge event, or lacks a field of its kind."""


class NoticeKind(StrEnum):
    """The kinds of notices, as Karpenter names them in metric labels."""

    SPOT_INTERRUPTED = "spot_interrupted"
    SCHEDULED_CHANGE = "scheduled_change"
    INSTANCE_STOPPED = "instance_stopped"
    INSTANCE_TERMINATED = "instance_terminated"
    REBALANCE_RECOMMENDATION = "rebalance_recommendation"
    CAPACITY_RESERVATION_INTERRUPTED = "capacity_reservation_interrupted"
    INSTANCE_STATUS = "instance_status"
    SYSTEM_STATUS = "system_status"
    EVENT_STATUS = "event_status"
    NO_OP = "no_op"

    @property
    def ends_node(self) -> bool:
        """Whether the instance ends, or is about to: its node leaves without being asked."""
        return self in _ENDS_NODE

    @property
    def asks_for_state(self) -> bool:
        """Whether EC2 confirms the notice by the state of the instance."""
        return self in (NoticeKind.INSTANCE_STOPPED, NoticeKind.INSTANCE_TERMINATED)

    @property
    def asks_for_events(self) -> bool:
        """Whether EC2 confirms the notice by a scheduled event of the instance."""
        return self is NoticeKind.SCHEDULED_CHANGE

    @property
    def needs_evidence(self) -> bool:
        """Whether EC2 is asked before anybody acts on the notice."""
        return self.asks_for_state or self.asks_for_events

    @property
    def failed(self) -> bool:
        """Whether the instance fails: its node leaves without grace."""
        return self in (NoticeKind.INSTANCE_STATUS, NoticeKind.SYSTEM_STATUS)


_ENDS_NODE = frozenset(
    {
        NoticeKind.SPOT_INTERRUPTED,
        NoticeKind.SCHEDULED_CHANGE,
        NoticeKind.INSTANCE_STOPPED,
        NoticeKind.INSTANCE_TERMINATED,
        NoticeKind.CAPACITY_RESERVATION_INTERRUPTED,
        NoticeKind.INSTANCE_STATUS,
        NoticeKind.SYSTEM_STATUS,
        NoticeKind.EVENT_STATUS,
    }
)


ENDING_STATES = ("stopping", "stopped", "shutting-down", "terminated")
SPOT_ONLY = (NoticeKind.SPOT_INTERRUPTED, NoticeKind.REBALANCE_RECOMMENDATION)
TAKES_CAPACITY = (*SPOT_ONLY, NoticeKind.CAPACITY_RESERVATION_INTERRUPTED)
"""Notices after which an offering is unavailable: EC2, or the owner of a reservation, needs the capacity."""
SHOWN_WITHIN = timedelta(minutes=1)
"""How long after a notice EC2 may not show yet what the notice says."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What EC2 says about an instance, as far as it was asked."""

    state: str = ""
    """Empty if EC2 does not know the instance."""
    scheduled: bool = False
    """Whether the instance has a scheduled event."""


def is_confirmed(kind: NoticeKind, evidence: Evidence, capacity_type: str) -> bool:
    """Whether a notice of this kind can be true. An instance that EC2 does not know is left to the sweeps."""
    if kind.asks_for_state:
        return evidence.state in ENDING_STATES
    if kind.asks_for_events:
        return evidence.scheduled
    return kind not in SPOT_ONLY or capacity_type == labels.SPOT


def is_fresh(sent_at: datetime | None, now: datetime) -> bool:
    """Whether EC2 may not show yet what a notice says, because AWS has sent the notice only just now."""
    return sent_at is not None and abs(now - sent_at) <= SHOWN_WITHIN


@dataclass(frozen=True, slots=True)
class NoticeEvent:
    """The Kubernetes event about a notice, on the Node and the NodeClaim (EVT-07)."""

    reason: EventReason
    message: str


EVENTS = {
    NoticeKind.SPOT_INTERRUPTED: NoticeEvent(EventReason.SPOT_INTERRUPTED, "EC2 interrupts the spot instance"),
    NoticeKind.REBALANCE_RECOMMENDATION: NoticeEvent(
        EventReason.SPOT_REBALANCE_RECOMMENDATION, "EC2 recommends to replace the spot instance"
    ),
    NoticeKind.INSTANCE_STOPPED: NoticeEvent(EventReason.INSTANCE_STOPPING, "The instance stops or has stopped"),
    NoticeKind.INSTANCE_TERMINATED: NoticeEvent(
        EventReason.INSTANCE_TERMINATING, "The instance terminates or has terminated"
    ),
    NoticeKind.CAPACITY_RESERVATION_INTERRUPTED: NoticeEvent(
        EventReason.RESERVATION_INTERRUPTED, "The owner of the capacity reservation takes the instance back"
    ),
    NoticeKind.INSTANCE_STATUS: NoticeEvent(
        EventReason.INSTANCE_UNHEALTHY, "The instance fails EC2's instance status check"
    ),
    NoticeKind.SYSTEM_STATUS: NoticeEvent(
        EventReason.INSTANCE_UNHEALTHY, "The instance fails EC2's system status check"
    ),
}
LEAVES = NoticeEvent(
    EventReason.TERMINATING_ON_INTERRUPTION, "Tenon drains the node and replaces it because of an interruption"
)


@dataclass(frozen=True, slots=True)
class Notice:
    """One message: what happens to which instances."""

    kind: NoticeKind
    instance_ids: tuple[str, ...] = ()
    at: datetime | None = None
    """When AWS sent it; None if the message does not say."""


def _instance_id(text: str) -> str:
    if _INSTANCE_ID.fullmatch(text) is None:
        raise ValueError("not the ID of an instance")
    return text


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class _Event(_Part):
    source: str
    detail_type: str = Field(alias="detail-type")
    version: str = VERSION
    time: Any = None
    detail: dict[str, Any]


class _Instance(_Part):
    id: Annotated[str, AfterValidator(_instance_id)] = Field(alias="instance-id")


class _StateChange(_Instance):
    state: str


class _AffectedEntity(_Part):
    value: str = Field("", alias="entityValue")


class _Health(_Part):
    service: str
    category: str = Field(alias="eventTypeCategory")
    entities: list[_AffectedEntity] = Field(default_factory=list, alias="affectedEntities")


_OF_ONE_INSTANCE = {
    "EC2 Spot Instance Interruption Warning": NoticeKind.SPOT_INTERRUPTED,
    "EC2 Instance Rebalance Recommendation": NoticeKind.REBALANCE_RECOMMENDATION,
    "EC2 Capacity Reservation Instance Interruption Warning": NoticeKind.CAPACITY_RESERVATION_INTERRUPTED,
    # The name of the same event in other parts of AWS's documentation.
    "EC2 Interruptible Capacity Reservation Instance Interruption Warning": NoticeKind.CAPACITY_RESERVATION_INTERRUPTED,
}
_OF_STATE = {
    "stopping": NoticeKind.INSTANCE_STOPPED,
    "stopped": NoticeKind.INSTANCE_STOPPED,
    "shutting-down": NoticeKind.INSTANCE_TERMINATED,
    "terminated": NoticeKind.INSTANCE_TERMINATED,
}


def read_notice(body: str) -> Notice:
    """Read the body of a message.

    Raises:
        MalformedNoticeError: it is not an EventBridge event, or not one of the kind that it claims to be.
    """
    try:
        event = _Event.model_validate_json(body)
        return _notice(event)
    except (ValueError, RecursionError) as error:
        raise MalformedNoticeError(f"the message is not an event of EventBridge: {_brief(error)}") from error


def _notice(event: _Event) -> Notice:
    at = parse_instant(event.time) if isinstance(event.time, str) else None
    nothing = Notice(NoticeKind.NO_OP, at=at)
    if event.version != VERSION:
        return nothing
    match event.source, event.detail_type:
        case "aws.ec2", "EC2 Instance State-change Notification":
            change = _StateChange.model_validate(event.detail)
            kind = _OF_STATE.get(change.state)
            return Notice(kind, (change.id,), at) if kind is not None else nothing
        case "aws.ec2", name if name in _OF_ONE_INSTANCE:
            return Notice(_OF_ONE_INSTANCE[name], (_Instance.model_validate(event.detail).id,), at)
        case "aws.health", "AWS Health Event":
            health = _Health.model_validate(event.detail)
            if health.service != "EC2" or health.category != "scheduledChange":
                return nothing
            # An event may name volumes, hosts and reservations too. Those are no instances of a node.
            instance_ids = (entity.value for entity in health.entities if _INSTANCE_ID.fullmatch(entity.value))
            return Notice(NoticeKind.SCHEDULED_CHANGE, tuple(dict.fromkeys(instance_ids)), at)
        case _:
            return nothing


def _brief(error: Exception) -> str:
    """What is wrong, without the body's own text: it may be long, or may not belong into a log."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        return f"{where + ': ' if where else ''}{first['msg']}"[:_MAX_REASON]
    return type(error).__name__
