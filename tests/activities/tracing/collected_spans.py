"""Keeps the spans of a test in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler

from activities.tracing import spans
from activities.tracing.open_telemetry import Identifiers, OpenTelemetry


@contextmanager
def collecting(sampler: Sampler = ALWAYS_ON) -> Iterator[InMemorySpanExporter]:
    """Record spans until the end of the block."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(sampler=sampler, id_generator=Identifiers())
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    spans.enable(OpenTelemetry(provider))
    try:
        yield exporter
    finally:
        spans.enable(None)
