"""Exits a process that used Temporal immediately, without the interpreter's own shutdown.

Threads of Temporal's core may still pass an object to Python while the interpreter shuts down, which aborts the process
after its work is done. Therefore this module does itself what that shutdown would do and the operating system does not.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import NoReturn

from activities.kubernetes import credential_files
from worker.runtime.telemetry.tracing import flush_spans


def hard_exit(status: int) -> NoReturn:
    """Delete the files of credentials, flush spans, logs and output, and exit with ``status``."""
    credential_files.remove()
    flush_spans()
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
