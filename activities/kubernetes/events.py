"""Writes Kubernetes events about what happened to an object and why.

Events only inform. If one cannot be written, the work continues: the recorder tries again in the background if the API
server did not answer, and otherwise logs it. The recorder limits how often it writes the same message on the same
object. Repetitions increase the count of one Event object. Of reasons that say what is so now, an object has one Event
with the last message, so that those of a pod that waits for hours do not pile up.
"""

from __future__ import annotations

import asyncio
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
from activities.kubernetes.errors import ApiError, ConflictError
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

RETRY_AFTER = (5.0, 20.0, 60.0)
"""Seconds between the attempts to write an event that the API server did not answer."""
MOST_RETRIED = 500
"""How many events are written again at most at the same time."""
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
        self._unsent: dict[str, tuple[_Written, JsonObject]] = {}
        """Events that are written again, with the last message of each."""
        self._retries: set[asyncio.Task[None]] = set()
        """Holds references, because an event loop has only weak ones."""
        self._rates = {reason: EventRate(*rate) for reason, rate in RATES.items()}

    async def publish(
        self,
        regarding: Mapping[str, Any],
        reason: Published,
        message: str,
        type_: EventType | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> bool:
        """Write an event about an object or a reference to one. Return False if it was suppressed or failed.

        After a failure that may pass, it is written again in the background: many callers publish an event only once.
        """
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
        stamp = format_instant(self._now())
        event: JsonObject = {
            "metadata": {
                "name": f"{reference['name'][:200]}.{key}",
                "namespace": reference.get("namespace") or "default",
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
        error = await self._attempt(key, written, event)
        if error is None:
            return True
        # Who states what is so now states it again, and a late retry would overwrite what is so by then.
        is_repeated = reason in STATES
        if error.is_transient and not is_repeated and (key in self._unsent or len(self._unsent) < MOST_RETRIED):
            self._retry_later(key, written, event)
        else:
            _log_failure(event, error)
        return False

    async def _attempt(self, key: str, written: _Written, event: JsonObject) -> ApiError | None:
        """Write an event. Return why it was not written."""
        self._remember(key, written)
        try:
            with requests_as(RequestClass.EVENT):
                written.count = await self._write(event, written.count)
        except ApiError as error:
            if error.is_transient:
                self._written.pop(key, None)
            return error
        return None

    def _retry_later(self, key: str, written: _Written, event: JsonObject) -> None:
        is_retried = key in self._unsent
        self._unsent[key] = written, event
        if not is_retried:
            retry = asyncio.create_task(self._retry(key), name="event")
            self._retries.add(retry)
            retry.add_done_callback(self._retries.discard)

    async def _retry(self, key: str) -> None:
        """Write an event again, unless it is published again meanwhile."""
        error: ApiError | None = None
        try:
            for pause in RETRY_AFTER:
                await asyncio.sleep(pause)
                if key in self._written:
                    return
                error = await self._attempt(key, *self._unsent[key])
                if error is None:
                    return
                if not error.is_transient:
                    break
            if error is not None:
                _log_failure(self._unsent[key][1], error)
        finally:
            del self._unsent[key]

    async def _write(self, event: JsonObject, count: int) -> int:
        """Write the event that this process has written so many times. Return its new count.

        A process that has written it sends one request: the messages of thousands of waiting pods may change at once.
        """
        if count and await self._write_again(event, count + 1):
            return count + 1
        metadata = event["metadata"]
        try:
            await self._kube.create(EVENTS, event, metadata["namespace"])
        except ConflictError:
            earlier = await self._kube.get(EVENTS, metadata["name"], metadata["namespace"]) or {}
            count = int(earlier.get("count") or 1) + 1
            await self._write_again(event, count)
            return count
        return 1

    async def _write_again(self, event: JsonObject, count: int) -> bool:
        """Write to the Event object. Return False if it is gone: Kubernetes keeps one for an hour."""
        metadata = event["metadata"]
        again: JsonObject = {
            "count": count,
            "lastTimestamp": event["lastTimestamp"],
            "message": event["message"],
            "metadata": {"annotations": metadata.get("annotations")},
        }
        return await self._kube.patch(EVENTS, metadata["name"], again, namespace=metadata["namespace"]) is not None

    def _remember(self, key: str, written: _Written) -> None:
        self._written[key] = written
        self._written.move_to_end(key)
        while len(self._written) > _REMEMBERED:
            self._written.popitem(last=False)

    def _within_rate(self, reason: str, instant: float) -> bool:
        return reason not in self._rates or self._rates[reason].allows(instant)


def _log_failure(event: JsonObject, error: ApiError) -> None:
    involved = event["involvedObject"]
    log.warning(
        "The worker failed to write an Event",
        extra={
            "kind": involved["kind"],
            "object": involved["name"],
            "reason": event["reason"],
            "error": str(error),
        },
    )


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _reference(regarding: Mapping[str, Any]) -> dict[str, str]:
    source = {**regarding, **(regarding.get("metadata") or {})}
    fields = ("apiVersion", "kind", "namespace", "name", "uid")
    reference_fields = {field: str(source[field]) for field in fields if source.get(field)}
    return {"kind": "", **reference_fields}
