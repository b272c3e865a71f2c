"""Tracing, which is on if the environment sets an OTLP endpoint through OpenTelemetry's own variables.

OpenTelemetry is imported only then, because it takes about 10 MiB in each process of a worker.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from typing import TYPE_CHECKING

from activities import loggers
from activities.tracing import spans
from tenon import __version__
from worker.log_rate_limit import LogRateLimiter
from worker.settings.open_telemetry import asks_for_traces

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

FLUSH_SECONDS = 3.0
"""How long a process that ends waits for its last spans. It must not be killed because a collector is slow."""
EXPORTER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
"""The library's logger."""
MAX_ERROR = 300
_providers: list[TracerProvider] = []
"""That of this process, if tracing is enabled."""


def tracing_wanted() -> bool:
    """Whether the environment of this process asks for spans."""
    return asks_for_traces(os.environ)


class ExportFailures(logging.Handler):
    """Reports once a minute that spans cannot be sent. The library writes a line for each of its attempts."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._log_limiter = LogRateLimiter()

    def emit(self, record: logging.LogRecord) -> None:
        """Report in one sentence what the library has to say."""
        if self._log_limiter.count(EXPORTER) is not None:
            error = record.getMessage()[:MAX_ERROR]
            loggers.TRACING.warning("The worker failed to send spans, and goes on without them", extra={"error": error})


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
    library = loggers.library(EXPORTER)
    library.handlers[:], library.propagate = [ExportFailures()], False
    return True


def flush_spans(within: float = FLUSH_SECONDS) -> None:
    """Send the spans that were not sent yet, if tracing is enabled. Waits for ``within`` seconds at most."""
    for provider in _providers:
        # The library would wait for ten seconds and more, whatever limit it is given.
        sending = threading.Thread(target=provider.shutdown, name="last spans", daemon=True)
        sending.start()
        sending.join(within)
