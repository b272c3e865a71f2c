"""Shared by the two worker processes: start-up errors as sentences instead of tracebacks, and graceful shutdown.

One long computation delays everything else, including the renewal of the Lease, so the lag of the event loop is
measured. If the loop is late but computed little, it waited for a core: for other threads, or because the container's
CPU limit is used up.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from activities import loggers
from activities.ec2.errors import EC2Error
from activities.kubernetes.errors import ApiError, ApiUnreachableError, ConfigError
from activities.metrics import EVENT_LOOP_COMPUTING, EVENT_LOOP_LAG
from worker.log_rate_limit import ActivityFailureFilter
from worker.runtime.child_processes import EXIT_UNUSABLE, METRICS_FOLDER, REPORT_FD, report_failure, report_health
from worker.runtime.hard_exit import hard_exit
from worker.runtime.memory import bound_allocator, shrink_tls_buffers, watch_memory
from worker.runtime.telemetry import logs
from worker.runtime.telemetry.profiling import serve_profiles
from worker.runtime.telemetry.tracing import set_up_tracing
from worker.runtime.temporal.temporal_client import TemporalError
from worker.settings import Settings, SettingsError, load

PERIOD = 0.05
"""Seconds between two measurements."""
SLOT, SLOTS = 5.0, 12
"""The worst value is kept for each 5 seconds of the last minute."""
LATE, LATELY = 2.5, 2
"""A process is not ready if its loop was late by this many seconds in one of this many newest slots. A Lease that is
not renewed within 10 s is lost.
"""


class LoopLag:
    """Measures the lag, exports the worst value of the last minute as metrics, and reports when it is too high."""

    def __init__(
        self,
        process: str,
        clock: Callable[[], float] | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        computed: Callable[[], float] = time.thread_time,
    ) -> None:
        """Create the measurement.

        Args:
            process: the label of the metrics.
            clock: returns seconds; by default the time of the running loop.
            pause: sleeps for a number of seconds.
            computed: returns the CPU seconds of this thread.
        """
        self._clock = clock or asyncio.get_running_loop().time
        self._pause = pause
        self._computed = computed
        self._late = EVENT_LOOP_LAG.labels(process)
        self._computing = EVENT_LOOP_COMPUTING.labels(process)
        self._slots: deque[tuple[float, float]] = deque([(0.0, 0.0)], SLOTS)

    async def run(self) -> None:
        """Measure until cancelled."""
        slot_ends = self._clock() + SLOT
        while True:
            due, before = self._clock() + PERIOD, self._computed()
            await self._pause(PERIOD)
            now, computed = self._clock(), self._computed() - before
            late, most = self._slots[-1]
            if now < slot_ends and late >= now - due and most >= computed:
                continue  # as it is nearly always, twenty times a second: exporting costs far more than measuring
            while now >= slot_ends:
                self._slots.append((0.0, 0.0))
                slot_ends += SLOT
            late, most = self._slots[-1]
            self._slots[-1] = max(late, now - due), max(most, computed)
            self._late.set(max(late for late, _ in self._slots))
            self._computing.set(max(most for _, most in self._slots))

    def why_late(self) -> str:
        """A sentence while the loop is late. Otherwise empty."""
        worst = max(late for late, _ in list(self._slots)[-LATELY:])
        return f"its event loop was {worst:.1f} s late" if worst >= LATE else ""


AWS_THREADS = 64

Main = Callable[[Settings, "Readiness", asyncio.Event], Awaitable[None]]


class Readiness:
    """Why the process is not ready. Empty if it is."""

    def __init__(self) -> None:
        self.why = "starting"
        self.checks: list[Callable[[], str]] = []

    def __call__(self) -> str:
        """The first reason that applies."""
        return self.why or next((why for check in self.checks if (why := check())), "")


def run(name: str, main: Main) -> None:
    """Run a worker process until it is stopped. It exits with 2 if it cannot work with its settings or its
    environment.
    """
    bound_allocator()
    shrink_tls_buffers()
    allow_open_files()
    try:
        settings = load()
        logs.set_up(name, settings)
        loggers.library("temporalio.activity").addFilter(ActivityFailureFilter())
        set_up_tracing(name, settings.cluster_name)
        asyncio.run(_run(name, settings, main))
    except (SettingsError, TemporalError, ApiUnreachableError, ConfigError, ApiError, EC2Error) as error:
        if not report_failure(str(error)):
            print(error, file=sys.stderr, flush=True)
        hard_exit(EXIT_UNUSABLE)
    hard_exit(0)


def allow_open_files() -> None:
    """Raise the limit of open files as far as the container allows.

    In a burst, a process has hundreds of connections to the API server, and some container runtimes begin with 1,024.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _run(name: str, settings: Settings, main: Main) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    # Calls to AWS block a thread each; the default of cores + 4 would make many launches wait for each other.
    loop.set_default_executor(ThreadPoolExecutor(AWS_THREADS, thread_name_prefix="aws"))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    readiness = Readiness()
    lag = LoopLag(name)
    readiness.checks.append(lag.why_late)
    async with _reporting(readiness, stop), _watched(name, settings, lag):
        await main(settings, readiness, stop)


async def until_stopped(stop: asyncio.Event, endless: Iterable[asyncio.Task[None]]) -> None:
    """Wait for the signal to stop. A task that ends before that ends the process, with its error."""
    tasks = list(endless)
    stopped = asyncio.create_task(stop.wait(), name="stop")
    try:
        ended, _ = await asyncio.wait({stopped, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task in ended:
                await task
    finally:
        stopped.cancel()
        for task in tasks:
            task.cancel()
        await asyncio.gather(stopped, *tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def _watched(name: str, settings: Settings, lag: LoopLag) -> AsyncIterator[None]:
    """Watch memory and the event loop, and serve profiles if they are enabled."""
    tasks = [
        asyncio.create_task(watch_memory(settings.memory_limit), name="memory"),
        asyncio.create_task(lag.run(), name="loop lag"),
    ]
    folder = os.environ.get(METRICS_FOLDER)
    if settings.enable_profiling and folder:
        tasks.append(asyncio.create_task(serve_profiles(folder, name), name="profiles"))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def _reporting(readiness: Readiness, stop: asyncio.Event) -> AsyncIterator[None]:
    """Report health. If the parent is gone, set ``stop``."""
    reporter = asyncio.create_task(report_health(readiness))
    if os.environ.get(REPORT_FD):
        reporter.add_done_callback(lambda _: stop.set())
    try:
        yield
    finally:
        reporter.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reporter
