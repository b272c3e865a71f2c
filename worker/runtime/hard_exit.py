"""Exits a process that used Temporal at once, without the interpreter's own shutdown.

Threads of Temporal's core may still hand an object back to Python while the interpreter takes itself apart, and abort
the process after its work is done. So what is left to do is done here, and the rest is left to the operating system.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import NoReturn

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider


def end(status: int) -> NoReturn:
    """Flush spans, logs and output, and exit with ``status``."""
    provider = trace.get_tracer_provider()
    if isinstance(provider, TracerProvider):
        provider.shutdown()
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
