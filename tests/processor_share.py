"""Shares the processor between the processes of a test run.

Linux shares it between sessions first, and then between the threads of a session, while autogroups are on, as they are
by default (sched(7)). Seven test processes of one session would have as much together as a single component of one of
their sandboxes, and their clients would give connections up after ten seconds. So each has a session of its own.

Workers yield to API servers, etcd and Temporal, which have machines of their own in a real cluster. While seven
sandboxes shared two cores with equal priority, an API server answered so late that the leader lost its Lease three
times, and read the whole cluster again each time. With `NICENESS`, it lost none.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

NICENESS = 5
AUTOGROUP = Path("/proc/self/autogroup")


def pytest_configure() -> None:
    if "PYTEST_XDIST_WORKER" in os.environ and os.getsid(0) != os.getpid():
        os.setsid()


def yield_processor() -> None:
    """Give other processes precedence over this one and its children of the same session."""
    os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
    with contextlib.suppress(OSError):  # a system without autogroups
        AUTOGROUP.write_text(str(NICENESS))
