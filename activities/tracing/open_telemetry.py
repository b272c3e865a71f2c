"""Sends spans with OpenTelemetry's SDK. If tracing is enabled, `worker/runtime/telemetry/tracing.py` imports it.

Identifiers of root spans follow from the operation, so that every process knows them without a message, and a restarted
one continues the trace. OpenTelemetry's samplers decide about the trace from its ID, so all processes decide the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from datetime import datetime

from opentelemetry.context import Context
from opentelemetry.sdk.trace import Span as SdkSpan
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)
from opentelemetry.trace import Span as OtelSpan

from activities.tracing.context import SpanId
from activities.tracing.spans import Attributes, WorkKind

MAX_TEXT = 500
"""The longest text of an error."""
KINDS = {"work": SpanKind.INTERNAL, "client": SpanKind.CLIENT}
_forced: ContextVar[SpanId | None] = ContextVar("tenon_forced_span_id", default=None)


class Identifiers(RandomIdGenerator):
    """Random identifiers, except for root spans."""

    def generate_trace_id(self) -> int:
        """The next trace ID."""
        forced = _forced.get()
        return forced.trace if forced is not None else super().generate_trace_id()

    def generate_span_id(self) -> int:
        """The next span ID."""
        forced = _forced.get()
        return forced.span if forced is not None else super().generate_span_id()


class OpenTelemetry:
    """A backend for `spans`. The provider must have been made with `Identifiers`."""

    def __init__(self, provider: TracerProvider, scope: str = "tenon", version: str = "") -> None:
        self._tracer = provider.get_tracer(scope, version)
        self._sampler = provider.sampler

    def sampled(self, root: SpanId, name: str) -> SpanId:
        """The root with the sampler's decision about its trace."""
        decision = self._sampler.should_sample(None, root.trace, name).decision
        return SpanId(root.trace, root.span, decision is Decision.RECORD_AND_SAMPLE)

    def root(self, root: SpanId, name: str, at: datetime, links: Sequence[SpanId], attributes: Attributes) -> None:
        """Send the root span of an operation, which has no length."""
        start = int(at.timestamp() * 1e9)
        token = _forced.set(root)
        try:
            span = self._tracer.start_span(
                name, Context(), start_time=start, links=[Link(_context(link)) for link in links]
            )
        finally:
            _forced.reset(token)
        _set(span, attributes)
        span.end(start)

    def start(self, name: str, parent: SpanId, kind: WorkKind, attributes: Attributes) -> _Span:
        """Start a span."""
        context = set_span_in_context(NonRecordingSpan(_context(parent)), Context())
        span = self._tracer.start_span(name, context, kind=KINDS[kind])
        _set(span, attributes)
        return _Span(span)


class _Span:
    def __init__(self, span: OtelSpan) -> None:
        self._span = span

    @property
    def id(self) -> SpanId:
        context = self._span.get_span_context()
        return SpanId(context.trace_id, context.span_id, context.trace_flags.sampled)

    def set(self, attributes: Attributes) -> None:
        _set(self._span, attributes)

    def fail(self, error: BaseException | str) -> None:
        text = str(error)[:MAX_TEXT]
        if isinstance(error, BaseException):
            kind = getattr(error, "type", None) or type(error).__name__
            # Without its stack trace, which would be most of the trace and is in the log.
            self._span.add_event("exception", {"exception.type": str(kind), "exception.message": text})
            self._span.set_attribute("error.type", str(kind))
        self._span.set_status(Status(StatusCode.ERROR, text))

    def end(self, *, without_length: bool = False) -> None:
        began = self._span.start_time if isinstance(self._span, SdkSpan) else None
        self._span.end(began if without_length else None)


def _context(identifier: SpanId) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED if identifier.sampled else TraceFlags.DEFAULT)
    return SpanContext(identifier.trace, identifier.span, is_remote=True, trace_flags=flags)


def _set(span: OtelSpan, attributes: Attributes) -> None:
    for name, value in attributes.items():
        if value != "":
            span.set_attribute(name.value, value)
