"""One JSON object a line, in the field names that operators of Karpenter grep for."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any

from pythonjsonlogger.json import JsonFormatter

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}


class TenonFormatter(JsonFormatter):
    """level, time, logger, message, then the named values of the record."""

    def __init__(self, process: str) -> None:
        """``process`` names the worker process that writes."""
        super().__init__("%(message)s")
        self.process = process

    def add_fields(self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]) -> None:
        """The fixed fields first, the record's own after them."""
        log_data["level"] = record.levelname.replace("WARNING", "WARN")
        log_data["time"] = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        log_data["logger"] = record.name
        log_data["process"] = self.process
        super().add_fields(log_data, record, message_dict)
        for noise in ("taskName", "temporal_activity", "temporal_workflow", "__temporal_original_message"):
            log_data.pop(noise, None)


def set_up(process: str, level: str) -> None:
    """Send all logs of this process to stdout."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(TenonFormatter(process))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(_LEVELS[level])
    for chatty in ("botocore", "boto3", "urllib3", "aiohttp", "kubernetes", "kubernetes_asyncio", "asyncio"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
