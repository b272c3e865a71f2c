"""Forwards the log of Temporal's core to this process's log, and keeps an outage from filling it.

By default the core writes colored text to stdout, one line for each retry of each poller: dozens a minute while
Temporal is unavailable. `watch_temporal` reports such an outage in one sentence.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Callable

from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig

from activities import loggers
from worker.log_rate_limit import LogRateLimiter

CORE = loggers.library("temporalio.core")
LEVELS = (
    "ERROR,temporalio_common=WARN,temporalio_sdk_core=WARN,temporalio_sdk=WARN,temporal_sdk_bridge=WARN,"
    "temporalio_client=ERROR"
)
"""The client's warnings report its retries."""
_CHANGING = re.compile(r"\d+")


class CoreLines(logging.Filter):
    """Passes each distinct line once a minute, ignoring numbers, and removes a field that only the core can read."""

    def __init__(self, log_limiter: Callable[[str], int | None] | None = None) -> None:
        super().__init__()
        self._count = log_limiter or LogRateLimiter().count

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is written."""
        vars(record).pop("temporal_log", None)
        return self._count(_CHANGING.sub("", record.getMessage())[:120]) is not None


@functools.cache
def runtime() -> Runtime:
    """The Temporal runtime of this process."""
    CORE.addFilter(CoreLines())
    forwarding = LogForwardingConfig(CORE, append_target_to_name=False, prepend_target_on_message=False)
    return Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter=LEVELS, forwarding=forwarding)))
