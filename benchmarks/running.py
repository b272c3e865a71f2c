"""Starts a sandbox and an autoscaler for a benchmark, and restarts the autoscaler whenever it exits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
from rich.console import Console

from sandbox.cluster import Sandbox
from sandbox.progress import shown
from sandbox.temporal import TemporalKind

MEMORY = "/dev/shm"
"""Keeps the databases of etcd and Temporal in memory if it exists, so that the disk does not affect the results."""
READY_SECONDS = 120.0
STOP_SECONDS = 60.0
RESTART_SECONDS = 0.2
"""Seconds between two checks of whether the worker has exited."""
WITHOUT_GRPC = {"PYTHONPATH": str(Path(__file__).parent / "without_grpc")}
"""The part of a worker's environment that hides grpcio, which the image does not contain."""
QUIET_SECONDS, QUIET_LOOKS, QUIET_SHARE = 0.5, 3, 0.1
"""An autoscaler is idle if it uses less than this share of a core in this many consecutive checks."""


class Autoscaler:
    """An autoscaler's process on a sandbox. It restarts whenever it exits by itself, as under a kubelet."""

    def __init__(self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        """``name`` is for messages. ``environment`` has HEALTH_PROBE_PORT, and hides this process's own clusters."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "TEMPORAL_", "KUBE", "OTEL_"))}
        self.environment = {**inherited, **environment}
        self.log = log
        self.starts = 0
        self._name = name
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._keeper = threading.Thread()

    def start(self) -> None:
        """Start the autoscaler and wait until /readyz succeeds.

        Raises:
            TimeoutError: it is not ready in time.
        """
        self._stopping.clear()
        self._start()
        self._keeper = threading.Thread(target=self._keep, name=f"{self._name} keeper", daemon=True)
        self._keeper.start()
        self.wait_ready()

    def wait_ready(self) -> None:
        """Wait until /readyz succeeds.

        Raises:
            TimeoutError: the autoscaler is not ready in time.
        """
        url = f"http://127.0.0.1:{self.environment['HEALTH_PROBE_PORT']}/readyz"
        deadline, why = time.monotonic() + READY_SECONDS, ""
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(url, timeout=5):
                    return
            except urllib.error.HTTPError as error:
                why = error.read().decode().strip()
            except OSError as error:
                why = str(error)
            time.sleep(0.1)
        raise TimeoutError(f"{self._name} is not ready after {READY_SECONDS:g} s ({why}); its log is {self.log}")

    def wait_idle(self) -> None:
        """Wait until the autoscaler has completed its initial reads, so that it behaves like a long-running one.

        Raises:
            TimeoutError: it is still busy after READY_SECONDS.
        """
        deadline = time.monotonic() + READY_SECONDS
        quiet, used = 0, self._cpu_seconds()
        while quiet < QUIET_LOOKS:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self._name} does not become idle; its log is {self.log}")
            time.sleep(QUIET_SECONDS)
            before, used = used, self._cpu_seconds()
            quiet = quiet + 1 if used - before < QUIET_SHARE * QUIET_SECONDS else 0

    def _cpu_seconds(self) -> float:
        times = (process.cpu_times() for process in self.processes())
        return sum(time.user + time.system for time in times)

    def processes(self) -> list[psutil.Process]:
        """Return the parent process and its children, or an empty list while the autoscaler is down."""
        try:
            parent = psutil.Process(self._process.pid) if self._process is not None else None
            return [parent, *parent.children(recursive=True)] if parent is not None else []
        except psutil.NoSuchProcess:
            return []

    def kill(self, name: str = "") -> None:
        """Send SIGKILL to one process (``io``, ``cluster``), or to all of them if no name is given.

        Raises:
            LookupError: no such process runs.
        """
        processes = [
            process for process in self.processes() if not name or f"worker.runtime.{name}_process" in process.cmdline()
        ]
        if not processes:
            raise LookupError(f"{self._name} has no process {name}")
        for process in processes:
            process.send_signal(signal.SIGKILL)

    def stop(self) -> None:
        """Stop the autoscaler until the next ``start``."""
        self._stopping.set()
        if self._keeper.ident is not None:
            self._keeper.join()
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()

    def _start(self) -> None:
        self.starts += 1
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, env=self.environment, stdout=log, stderr=subprocess.STDOUT)

    def _keep(self) -> None:
        while not self._stopping.wait(RESTART_SECONDS):
            if self._process is not None and self._process.poll() is not None:
                self._start()


class Worker(Autoscaler):
    """A ``tenon worker`` on a sandbox."""

    def __init__(self, sandbox: Sandbox, **settings: str) -> None:
        """``settings`` are environment variables of the worker."""
        command = (sys.executable, "-m", "cli", "worker")
        super().__init__(
            "the worker", command, sandbox.logs / "worker.log", {**sandbox.worker_env(), **WITHOUT_GRPC, **settings}
        )


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@contextmanager
def running(
    console: Console,
    *,
    boot_delay: float = 0.0,
    keep_logs: Path | None = None,
    temporal: TemporalKind = TemporalKind.DEV,
    **settings: str,
) -> Iterator[tuple[Sandbox, Worker]]:
    """Yield a sandbox and a ready worker.

    Args:
        console: shows the progress.
        boot_delay: seconds from an instance's launch until its node joins.
        keep_logs: a folder that keeps the logs after the sandbox has stopped.
        temporal: which Temporal runs.
        settings: environment variables of the worker.
    """
    with sandboxed(console, boot_delay=boot_delay, keep_logs=keep_logs, temporal=temporal) as sandbox:
        worker = Worker(sandbox, **settings)
        with started(worker):
            console.print("worker ready", highlight=False)
            yield sandbox, worker


@contextmanager
def started(autoscaler: Autoscaler) -> Iterator[None]:
    """Run an autoscaler. It is ready and idle at first."""
    try:
        autoscaler.start()
        autoscaler.wait_idle()
        yield
    finally:
        autoscaler.stop()


@contextmanager
def sandboxed(
    console: Console,
    *,
    boot_delay: float = 0.0,
    audit: bool = False,
    keep_logs: Path | None = None,
    temporal: TemporalKind = TemporalKind.DEV,
) -> Iterator[Sandbox]:
    """Yield a sandbox without an autoscaler.

    Args:
        console: shows the progress.
        boot_delay: seconds from an instance's launch until its node joins.
        audit: write an audit log.
        keep_logs: a folder that keeps the logs after the sandbox has stopped.
        temporal: which Temporal runs.
    """
    signal.signal(signal.SIGTERM, _interrupt)  # the sandbox must not outlive the benchmark
    with tempfile.TemporaryDirectory(dir=MEMORY if os.path.isdir(MEMORY) else None) as scratch:
        with shown(console) as on_progress:
            sandbox = Sandbox.start(
                scratch, boot_delay=boot_delay, audit=audit, temporal=temporal, on_progress=on_progress
            )
        try:
            yield sandbox
        finally:
            sandbox.stop()
            if keep_logs is not None:
                keep_logs.mkdir(parents=True, exist_ok=True)
                for log in sandbox.logs.iterdir():
                    (keep_logs / log.name).write_bytes(log.read_bytes())
