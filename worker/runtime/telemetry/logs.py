"""Sends the logs of a worker process to where its settings say, and reports lines that cannot be written."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from logging.handlers import WatchedFileHandler
from typing import Any, TextIO

from temporalio import activity, workflow

from activities import loggers
from worker.runtime.telemetry.log_lines import TenonFormatter
from worker.settings import Settings, SettingsError

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}
_STREAMS: dict[str, Callable[[], TextIO]] = {"stdout": lambda: sys.stdout, "stderr": lambda: sys.stderr}


def set_up(process: str, settings: Settings) -> None:
    """Send all logs of this process to LOG_OUTPUT_PATHS.

    Raises:
        SettingsError: a file cannot be written.
    """
    handlers = _handlers("LOG_OUTPUT_PATHS", settings.log_output_paths)
    formatter = TenonFormatter(process)
    for handler in handlers:
        handler.setFormatter(formatter)
    root = loggers.library("")
    root.handlers[:] = handlers
    without_details()
    logging.captureWarnings(True)  # otherwise Python's warnings are plain text between the JSON lines
    root.setLevel(_LEVELS[settings.log_level])
    for chatty in ("botocore", "boto3", "urllib3", "aiohttp", "kubernetes", "kubernetes_asyncio", "asyncio"):
        loggers.library(chatty).setLevel(logging.WARNING)
    _report_faults(handlers, _handlers("LOG_ERROR_OUTPUT_PATHS", settings.log_error_output_paths), formatter)


def without_details() -> None:
    """Keep Temporal's loggers from adding a Python dict to each message. The formatter takes the workflow from it."""
    workflow.logger.workflow_info_on_message = False
    activity.logger.activity_info_on_message = False


def _handlers(setting: str, paths: Sequence[str]) -> list[logging.Handler]:
    try:
        return [
            logging.StreamHandler(_STREAMS[path]()) if path in _STREAMS else WatchedFileHandler(path, encoding="utf-8")
            for path in paths
        ]
    except OSError as error:
        raise SettingsError(
            f"{setting} names {error.filename}, which cannot be written ({error.strerror}): name another file, "
            "stdout or stderr."
        ) from None


def _report_faults(handlers: Sequence[logging.Handler], to: Sequence[logging.Handler], formatter: Any) -> None:
    """Report lines that cannot be written to LOG_ERROR_OUTPUT_PATHS, in the same format."""
    for handler in to:
        handler.setFormatter(formatter)

    def report(record: logging.LogRecord) -> None:
        why = sys.exc_info()[1]
        fault = logging.LogRecord(
            "worker.runtime.telemetry.logs",
            logging.ERROR,
            __file__,
            0,
            f"A line of {record.name} was not logged: {why}",
            None,
            None,
        )
        for handler in to:
            handler.handle(fault)

    for handler in handlers:
        handler.handleError = report  # type: ignore[method-assign]
