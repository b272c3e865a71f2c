"""Writes Kubernetes events about what happened to an object and why.

Events only inform. If one cannot be written, the recorder logs that and the work continues. The recorder limits how
often it writes the same message on the same object. Repetitions increase the count of one Event object. Of reasons that
say what is so now, an object has one Event with the last message, so that those of a pod that waits for hours do not
pile up.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from activities import loggers
from activities.clock import utc_now
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ConflictError, NotFoundError
from activities.kubernetes.event_rate import EventRate
from activities.kubernetes.rate_limit import RequestClass, requests_as
from activities.kubernetes.resources import EVENTS
from tenon.apis.json_object import JsonObject
from tenon.ec2.instances.interruption import EVENTS as EVENTS_OF_NOTICES
from tenon.ec2.instances.interruption import LEAVES
from tenon.kube.event_reasons import EventReason, EventType, Published
from tenon.kube.timestamps import format_instant
from tenon.sentences import shortened

log = loggers.EVENTS

DEFAULT_WINDOW = 120.0
WINDOWS: dict[str, float] = {
    EventReason.UNCONSOLIDATABLE: 900.0,
    EventReason.NODE_REPAIR_BLOCKED: 900.0,
    EventReason.SCHEDULED_CHANGE_DELAYED: 900.0,
    EventReason.FAILED_SCHEDULING: 300.0,
    EventReason.NO_COMPATIBLE_INSTANCE_TYPES: 60.0,
    EventReason.INVALID_DO_NOT_DISRUPT: 3600.0,
    EventReason.INVALID_DISRUPTION_COST: 3600.0,
    EventReason.REBOOT_OBSERVED: 1800.0,
    EventReason.REBOOT_FAILED: 1800.0,
    EventReason.HELD_BY_FINALIZER: 3600.0,
    EventReason.REPLACEMENT_IDLE: 3600.0,
    EventReason.ZONAL_SHIFT_UNKNOWN: 1800.0,
}
"""Reason to the seconds during which repetitions are not written."""

STATES = frozenset({EventReason.FAILED_SCHEDULING})
"""Reasons that say what is so now, such as when EC2 is asked again: a new message replaces the one before it."""

INTERRUPTIONS = (10.0, 100.0)
"""A wave of interruptions must not delay the taints of its own nodes: all requests share one limit."""
RATES: dict[str, tuple[float, float]] = {
    EventReason.NOMINATED: (5.0, 10.0),
    EventReason.UNCONSOLIDATABLE: (2.0, 40.0),
    EventReason.INVALID_DO_NOT_DISRUPT: (1.0, 20.0),
    EventReason.INVALID_DISRUPTION_COST: (1.0, 20.0),
    EventReason.CONSOLIDATION_MEASURED: (1.0, 20.0),
    **dict.fromkeys((event.reason for event in (*EVENTS_OF_NOTICES.values(), LEAVES)), INTERRUPTIONS),
}
"""Reason to (events per second, burst), for reasons that occur in large numbers."""

_REMEMBERED = 20_000
_MESSAGE_LENGTH = 1024


class EventPublisher(Protocol):
    """What everything that tells users something needs. Tests record events instead of writing them."""

    async def publish(
        self,
        regarding: Mapping[str, Any],
        reason: Published,
        message: str,
        type_: EventType | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> bool:
        """Publish an event about an object or a reference to one. Return whether it was published.

        ``type_``: if it is not that of the reason. ``annotations``: what the message says, for programs.
        """
        ...


@dataclass(slots=True)
class _Written:
    """What the recorder knows of one Event object."""

    until: float
    """Until when the same message is not written again."""
    text: str
    """The digest of what it says."""
    count: int = 0
    """Its count; 0 if this process has not written it."""


class EventRecorder:
    """Writes events as one component. ``clock`` returns monotonic seconds, ``now`` the current time."""

    def __init__(
        self,
        kube: Kube,
        component: str = "karpenter",
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._kube = kube
        self._component = component
        self._clock = clock
        self._now = now
        self._written: OrderedDict[str, _Written] = OrderedDict()
        self._rates = {reason: EventRate(*rate) for reason, rate in RATES.items()}

    async def publish(
        self,
        regarding: Mapping[str, Any],
        reason: Published,
        message: str,
        type_: EventType | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> bool:
        """Write an event about an object or a reference to one. Return False if it was suppressed or failed."""
        event_type = type_ or reason.type
        reference = _reference(regarding)
        message = shortened(message, _MESSAGE_LENGTH)
        about = [*(reference[field] for field in sorted(reference)), event_type, reason]
        text = _digest(*about, message)
        key = _digest(*about) if reason in STATES else text
        instant = self._clock()
        written = self._written.get(key) or _Written(instant, text)
        if (written.until > instant and text == written.text) or not self._within_rate(reason, instant):
            return False
        written.until, written.text = instant + WINDOWS.get(reason, DEFAULT_WINDOW), text
        self._remember(key, written)
        namespace = reference.get("namespace") or "default"
        name = f"{reference['name'][:200]}.{key}"
        stamp = format_instant(self._now())
        event: JsonObject = {
            "metadata": {
                "name": name,
                "namespace": namespace,
                **({"annotations": dict(annotations)} if annotations else {}),
            },
            "involvedObject": reference,
            "reason": str(reason),
            "message": message,
            "type": event_type,
            "count": 1,
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "source": {"component": self._component},
            "reportingComponent": self._component,
        }
        try:
            with requests_as(RequestClass.EVENT):
                written.count = await self._write(name, namespace, event, written.count)
        except ApiError as error:
            if not 400 <= error.status < 500:  # an outage: the next attempt may succeed
                self._written.pop(key, None)
            log.warning(
                "The worker failed to write an Event",
                extra={"kind": reference["kind"], "object": reference["name"], "reason": reason, "error": str(error)},
            )
            return False
        return True

    async def _write(self, name: str, namespace: str, event: JsonObject, count: int) -> int:
        """Write the event that this process has written so many times. Return its new count.

        A process that has written it sends one request: the messages of thousands of waiting pods may change at once.
        """
        if count:
            try:
                return await self._write_again(name, namespace, event, count + 1)
            except NotFoundError:  # Kubernetes keeps events for an hour
                pass
        try:
            await self._kube.create(EVENTS, event, namespace)
        except ConflictError:
            earlier = await self._kube.get(EVENTS, name, namespace) or {}
            return await self._write_again(name, namespace, event, int(earlier.get("count") or 1) + 1)
        return 1

    async def _write_again(self, name: str, namespace: str, event: JsonObject, count: int) -> int:
        again: JsonObject = {
            "count": count,
            "lastTimestamp": event["lastTimestamp"],
            "message": event["message"],
            "metadata": {"annotations": event["metadata"].get("annotations")},
        }
        await self._kube.patch(EVENTS, name, again, namespace=namespace)
        return count

    def _remember(self, key: str, written: _Written) -> None:
        self._written[key] = written
        self._written.move_to_end(key)
        while len(self._written) > _REMEMBERED:
            self._written.popitem(last=False)

    def _within_rate(self, reason: str, instant: float) -> bool:
        return reason not in self._rates or self._rates[reason].allows(instant)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _reference(regarding: Mapping[str, Any]) -> dict[str, str]:
    source = {**regarding, **(regarding.get("metadata") or {})}
    fields = ("apiVersion", "kind", "namespace", "name", "uid")
    reference_fields = {field: str(source[field]) for field in fields if source.get(field)}
    return {"kind": "", **reference_fields}
