"""Exits a process that used Temporal immediately, without the interpreter's own shutdown.

Threads of Temporal's core may still pass an object to Python while the interpreter shuts down, which aborts the process
after its work is done. Therefore this module flushes everything itself and leaves the rest to the operating system.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import NoReturn

from worker.runtime.telemetry.tracing import flush_spans


def hard_exit(status: int) -> NoReturn:
    """Flush spans, logs and output, and exit with ``status``."""
    flush_spans()
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
