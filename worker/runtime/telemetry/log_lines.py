"""Writes one JSON object per line, with the field names that operators of Karpenter search for."""

from __future__ import annotations

import logging
from typing import Any

from pythonjsonlogger.json import JsonFormatter

from activities.tracing import spans
from tenon.kube.timestamps import clock_instant


class TenonFormatter(JsonFormatter):
    """Writes level, time, logger and message, then the extra fields of the record."""

    def __init__(self, process: str) -> None:
        """``process`` names the worker process that writes."""
        super().__init__("%(message)s")
        self.process = process

    def add_fields(self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]) -> None:
        """Add the fixed fields first, then those of the record."""
        log_data["level"] = record.levelname.replace("WARNING", "WARN")
        log_data["time"] = clock_instant(record.created).isoformat(timespec="milliseconds")
        log_data["logger"] = record.name
        log_data["process"] = self.process
        super().add_fields(log_data, record, message_dict)
        if (span := spans.current()) is not None:
            log_data["trace_id"] = f"{span.trace:032x}"
            log_data["span_id"] = f"{span.span:016x}"
        if workflow_id := getattr(record, "temporal_workflow", {}).get("workflow_id"):
            log_data["workflow"] = workflow_id
        for noise in ("taskName", "temporal_activity", "temporal_workflow", "__temporal_original_message"):
            log_data.pop(noise, None)
