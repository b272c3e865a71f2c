"""Tracing, which is on if the environment sets an OTLP endpoint through OpenTelemetry's own variables.

OpenTelemetry is imported only then, because it takes about 8 MiB in each process of a worker.
"""

from __future__ import annotations

import os


def tracing_wanted() -> bool:
    """Whether the environment sets an endpoint for spans."""
    return bool(os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"))


def set_up_tracing(process: str, cluster: str) -> bool:
    """Install the global tracer provider if tracing is enabled. Returns whether it did."""
    if not tracing_wanted():
        return False
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create({"service.name": f"tenon-{process}", "tenon.cluster": cluster})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    return True


def flush_spans() -> None:
    """Send the spans that were not sent yet, if tracing is enabled."""
    if not tracing_wanted():
        return
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    provider = trace.get_tracer_provider()
    if isinstance(provider, TracerProvider):
        provider.shutdown()
