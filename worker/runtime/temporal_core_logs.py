"""What Temporal's core says goes into this process's log, as its other lines do, and an outage does not fill it.

Left alone, the core writes coloured text to stdout, a line for each retry of each of its pollers: dozens a minute while
Temporal is away, of which `watch_temporal` tells in one sentence.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Callable

from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig

from worker.runtime.log_rate_limit import LogRateLimiter

CORE = logging.getLogger("temporalio.core")
LEVELS = (
    "ERROR,temporalio_common=WARN,temporalio_sdk_core=WARN,temporalio_sdk=WARN,temporal_sdk_bridge=WARN,"
    "temporalio_client=ERROR"
)
"""The client's warnings are its retries."""
_CHANGING = re.compile(r"\d+")


class CoreLines(logging.Filter):
    """Lets the same line pass once a minute, numbers aside, without what only the core can read."""

    def __init__(self, log_limiter: Callable[[str], int | None] | None = None) -> None:
        super().__init__()
        self._count = log_limiter or LogRateLimiter().count

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is written."""
        vars(record).pop("temporal_log", None)
        return self._count(_CHANGING.sub("", record.getMessage())[:120]) is not None


@functools.cache
def runtime() -> Runtime:
    """The core's runtime of this process."""
    CORE.addFilter(CoreLines())
    forwarding = LogForwardingConfig(CORE, append_target_to_name=False, prepend_target_on_message=False)
    return Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter=LEVELS, forwarding=forwarding)))
