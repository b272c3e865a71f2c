"""Tracing, which is on if the environment sets an OTLP endpoint through OpenTelemetry's own variables.

OpenTelemetry is imported only then, because it takes about 8 MiB in each process of a worker.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from activities.tracing import spans
from tenon import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_providers: list[TracerProvider] = []
"""That of this process, if tracing is enabled."""


def tracing_wanted() -> bool:
    """Whether the environment sets an endpoint for spans, and does not switch them off."""
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or os.environ.get("OTEL_TRACES_EXPORTER") == "none":
        return False
    return any(os.environ.get(name) for name in ENDPOINTS)


def set_up_tracing(process: str, cluster: str) -> bool:
    """Record and send spans if tracing is enabled. Returns whether it is."""
    if not tracing_wanted():
        return False
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from activities.tracing.open_telemetry import Identifiers, OpenTelemetry

    resource = Resource.create(
        {
            "service.name": os.environ.get("OTEL_SERVICE_NAME") or "tenon",
            "service.version": __version__,
            "service.instance.id": f"{socket.gethostname()}/{process}",
            "k8s.cluster.name": cluster,
        }
    )
    provider = TracerProvider(resource=resource, id_generator=Identifiers())
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    spans.enable(OpenTelemetry(provider, version=__version__))
    _providers.append(provider)
    return True


def flush_spans() -> None:
    """Send the spans that were not sent yet, if tracing is enabled."""
    for provider in _providers:
        provider.shutdown()
