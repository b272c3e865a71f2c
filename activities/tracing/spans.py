"""Records work as spans while tracing is enabled, and costs one look at a variable otherwise.

Spans are recorded only within an operation: requests of caches, controllers and leader election have none. A recording
ends with its activity or notice, so that tasks which outlive it, and which inherit its context, add nothing to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, ParamSpec, Protocol, TypeVar

from activities.tracing.catalogue import Attribute, Operation, Phase
from activities.tracing.context import SpanId, root_of
from tenon.kube.timestamps import clock_instant, format_instant

MAX_REQUESTS = 200
"""How many requests one recording has spans of: backends limit traces, and a plan may write a thousand NodeClaims."""

Value = str | int | float | bool
Attributes = Mapping[Attribute, Value]
WorkKind = Literal["work", "client"]
_P = ParamSpec("_P")
_R = TypeVar("_R")


class Span(Protocol):
    """A span that is open."""

    @property
    def id(self) -> SpanId:
        """What identifies it."""

    def set(self, attributes: Attributes) -> None:
        """Add attributes, except those that are empty."""

    def fail(self, error: BaseException | str) -> None:
        """Mark the span as failed, with the error."""

    def end(self, *, without_length: bool = False) -> None:
        """End it, now or when it began."""


class Backend(Protocol):
    """Where spans go: `activities.tracing.open_telemetry`."""

    def sampled(self, root: SpanId, name: str) -> SpanId:
        """The root with the sampler's decision about its trace."""

    def root(self, root: SpanId, name: str, at: datetime, links: Sequence[SpanId], attributes: Attributes) -> None:
        """Send the root span of an operation, which has no length."""

    def start(self, name: str, parent: SpanId, kind: WorkKind, attributes: Attributes) -> Span:
        """Start a span."""


@dataclass(slots=True)
class Recording:
    """An activity or a notice that is recorded."""

    waits: bool = False
    """Reads are left out, because they only look whether the wait is over."""
    open: bool = True
    room: int = MAX_REQUESTS
    """For how many requests more there are spans."""
    left_out: int = 0
    began: datetime | None = None
    """When the operation began, if that was before the recording."""
    discarded: bool = False
    """Neither the step nor the root span is sent."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a new span belongs."""

    recording: Recording
    parent: SpanId
    span: Span | None


@dataclass(slots=True)
class _Destination:
    backend: Backend | None = None


_destination = _Destination()
_place: ContextVar[_Place | None] = ContextVar("tenon_span", default=None)


def enable(backend: Backend | None) -> None:
    """Record from now on; None ends that."""
    _destination.backend = backend


def _current() -> _Place | None:
    if _destination.backend is None:
        return None
    place = _place.get()
    return place if place is not None and place.recording.open else None


def is_recording() -> bool:
    """Whether the current work is recorded."""
    return _current() is not None


def current() -> SpanId | None:
    """The span of the current work. None if it is not recorded."""
    place = _current()
    return place.parent if place is not None else None


def traceparent() -> str:
    """The span of the current work for a message or an annotation; empty if it is not recorded."""
    place = current()
    return place.traceparent if place is not None else ""


def origin(since: float) -> str:
    """The text for the annotation of a NodeClaim that the current work creates; empty if it is not recorded.

    ``since``: when the oldest of its pods was created, in seconds since the epoch; 0 if it has none.
    """
    parent = traceparent()
    return f"{parent} {format_instant(clock_instant(since))}" if parent and since else parent


def set_attributes(attributes: Attributes) -> None:
    """Add attributes to the span of the current work."""
    place = _current()
    if place is not None and place.span is not None:
        place.span.set(attributes)


def began(at: float) -> None:
    """The operation under way began at this time, in seconds since the epoch, which its root span shows."""
    place = _current()
    if place is not None and at:
        place.recording.began = clock_instant(at)


def discard() -> None:
    """The operation under way did nothing that is worth a trace: its step and its root span are not sent."""
    place = _current()
    if place is not None:
        place.recording.discarded = True


def carried(call: Callable[_P, _R]) -> Callable[_P, _R]:
    """The call with the current context, for executors that do not take it along."""
    context = copy_context()

    def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        return context.run(call, *args, **kwargs)

    return run


@contextmanager
def operation(
    kind: Operation,
    key: str,
    name: str,
    *,
    is_first: bool,
    at: datetime,
    links: Sequence[str] = (),
    waits: bool = False,
    root: Attributes,
    attributes: Attributes,
) -> Iterator[Span | None]:
    """Record a step of an operation.

    Args:
        kind: what the trace is about.
        key: identifies the operation among all.
        name: that of the step.
        is_first: the step is the first of the operation, so that its root span is sent with it.
        at: when the operation began, if nothing better is found out.
        links: the traceparents of what led to it.
        waits: the step mostly waits, so its span has no length.
        root: the attributes of the root span.
        attributes: those of the step.
    """
    backend = _destination.backend
    if backend is None:
        yield None
        return
    root_id = backend.sampled(root_of(key), kind)
    recording = Recording(waits=waits)
    span = backend.start(name, root_id, "work", attributes)
    token = _place.set(_Place(recording, span.id, span))
    try:
        yield span
    except Exception as error:
        span.fail(error)
        raise
    finally:
        _place.reset(token)
        recording.open = False
        if not recording.discarded:  # a span that does not end is not sent
            if recording.left_out:
                span.set({Attribute.DROPPED: recording.left_out})
            span.end(without_length=waits)
            if is_first:
                linked = [link for link in map(SpanId.parse, dict.fromkeys(links)) if link is not None]
                backend.root(root_id, kind, recording.began or at, linked, root)


@contextmanager
def phase(name: Phase, attributes: Attributes | None = None) -> Iterator[None]:
    """Record a part of the current work, if it is recorded."""
    place, backend = _current(), _destination.backend
    if place is None or backend is None:
        yield
        return
    span = backend.start(name, place.parent, "work", attributes or {})
    token = _place.set(_Place(place.recording, span.id, span))
    try:
        yield
    except Exception as error:
        span.fail(error)
        raise
    finally:
        _place.reset(token)
        span.end()


def request(name: str, attributes: Attributes, *, reads: bool) -> Span | None:
    """Start the span of a request to AWS or to the API server. None if it has none; otherwise the caller ends it."""
    place, backend = _current(), _destination.backend
    if place is None or backend is None or (reads and place.recording.waits):
        return None
    if place.recording.room <= 0:
        place.recording.left_out += 1
        return None
    place.recording.room -= 1
    return backend.start(name, place.parent, "client", attributes)
