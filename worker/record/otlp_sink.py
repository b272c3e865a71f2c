"""Sends entries as OpenTelemetry log records to the OTLP endpoint that OpenTelemetry's own variables name.

This module is imported only if the setting asks for it, because OpenTelemetry takes about 8 MiB in each process.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, LogRecordExportResult
from opentelemetry.sdk.resources import Resource

from activities import loggers
from tenon.record.entries import Entry
from tenon.record.lines import line_of
from worker.record.channel import SinkError

EVENT = "tenon.record."
"""The beginning of the names of the events; the kind of the entry follows."""
_ATTRIBUTES = ("id", "cluster", "workflow", "run", "actor", "command", "reason", "code", "claim", "pool", "node")
_FACTS = ("claim", "pool", "node", "instance", "instance_type", "zone", "capacity_type")
_HOUR_IN_MILLISECONDS = 3_600_000


class _WatchedExporter(OTLPLogExporter):
    """Remembers whether the collector took everything since it was asked last."""

    failed = False

    def export(self, batch: Any) -> LogRecordExportResult:
        """Send log records."""
        result = super().export(batch)
        self.failed = self.failed or result is not LogRecordExportResult.SUCCESS
        return result


class OtlpSink:
    """Sends each batch with one request."""

    name = "otlp"
    batch = 100
    gathers_for = 1.0

    def __init__(self, process: str, cluster: str) -> None:
        """``process`` names the worker process, as for its traces."""
        self._exporter = _WatchedExporter()
        resource = Resource.create({"service.name": f"tenon-{process}", "tenon.cluster": cluster})
        self._provider = LoggerProvider(resource=resource, shutdown_on_exit=False)
        # It sends when it is flushed. The queue in front of this sink bounds what waits, and counts what is lost.
        processor = BatchLogRecordProcessor(
            self._exporter,
            schedule_delay_millis=_HOUR_IN_MILLISECONDS,
            max_queue_size=2 * self.batch,
            max_export_batch_size=self.batch,
        )
        self._provider.add_log_record_processor(processor)
        self._logger = self._provider.get_logger(loggers.RECORD.name)

    def write(self, entries: Sequence[Entry]) -> None:
        """Send all entries.

        Raises:
            SinkError: the collector does not take them.
        """
        self._exporter.failed = False
        for entry in entries:
            self._logger.emit(log_record(entry))
        if not self._provider.force_flush() or self._exporter.failed:
            where = os.environ.get("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT") or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
            raise SinkError(
                f"the OTLP endpoint {where or 'http://localhost:4318'} did not take the record: check "
                "OTEL_EXPORTER_OTLP_ENDPOINT, and that the collector receives logs over HTTP"
            )

    def close(self) -> None:
        """End the threads of OpenTelemetry."""
        self._provider.shutdown()


def log_record(entry: Entry) -> LogRecord:
    """Return the log record of an entry. Its body is the line of JSON; its attributes are what people search for."""
    fields = {name: getattr(entry, name, None) for name in _ATTRIBUTES}
    if (facts := getattr(entry, "facts", None)) is not None:
        fields |= {name: getattr(facts, name) for name in _FACTS}
    at = int(entry.at.timestamp() * 1_000_000) * 1000
    return LogRecord(
        timestamp=at,
        observed_timestamp=at,
        severity_number=SeverityNumber.INFO,
        severity_text="INFO",
        body=line_of(entry),
        attributes={
            "tenon.kind": str(entry.kind),
            **{f"tenon.{name}": str(value) for name, value in fields.items() if value},
        },
        event_name=f"{EVENT}{entry.kind}",
    )
