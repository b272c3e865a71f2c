"""`tenon worker` as the tests run it: a subprocess with the sandbox's environment, its log in the sandbox's folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import psutil

from sandbox.cluster import Sandbox
from tests.e2e.worker import READY_SECONDS, Worker
from tests.machine_speed import patiently, slowness
from tests.preloaded_worker import ForkedWorker, PreloadedWorker

STOP_SECONDS = 60.0
"""For a machine that is not slow."""


def environment(sandbox: Sandbox, replica: int = 0, /, **changes: str | None) -> dict[str, str]:
    """The environment of a worker of this sandbox, and of nothing else; None takes a variable out."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "TEMPORAL_", "KUBE", "OTEL_"))}
    worker_env: dict[str, str | None] = {**inherited, **sandbox.worker_env(replica), **changes}
    return {name: value for name, value in worker_env.items() if value is not None}


class WorkerProcess(Worker):
    """A worker as a process of this machine."""

    preloaded: PreloadedWorker | None = None
    """Starts workers with loaded modules; None while a test wants each to be started as it is in a container."""

    def __init__(self, sandbox: Sandbox, name: str = "e2e-worker", *, replica: int = 0, **changes: str | None) -> None:
        """``replica`` gives it ports of its own, ``changes`` other environment variables."""
        super().__init__(sandbox, name)
        self._environment = environment(sandbox, replica, **changes)
        self._for_python = any(name.startswith("PYTHON") for name in changes)
        """Whether Python reads one of the variables when it starts."""
        self._process: subprocess.Popen[bytes] | ForkedWorker | None = None
        self.stops_within: float = STOP_SECONDS

    def start(self, code: Path | None = None, *, unready: str = "") -> None:
        """Start it and return once /readyz says so; ``code`` is a folder with another version of the packages.

        With ``unready``, return once /readyz says that it is not ready for a reason that contains this text.
        """
        assert not self.running, "the worker runs, and a second one could not listen on its ports"
        with self.log.open("ab") as log:
            if self.preloaded is not None and code is None and not self._for_python:
                self._process = self.preloaded.start(self._environment, log)
            else:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "cli", "worker"],
                    env=self._environment,
                    cwd=code,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        why = ""
        for _ in patiently(READY_SECONDS):
            assert self._process.poll() is None, f"the worker ended with {self._process.returncode}: see {self.log}"
            why = self._unready()
            if unready in why if unready else not why:
                return
            time.sleep(0.1)
        raise AssertionError(f"the worker is not ready: {why}; see {self.log}")

    def _unready(self) -> str:
        url = f"http://127.0.0.1:{self._environment['HEALTH_PROBE_PORT']}/readyz"
        try:
            with urllib.request.urlopen(url, timeout=5):
                return ""
        except urllib.error.HTTPError as error:
            return error.read().decode().strip()
        except OSError as error:
            return str(error)

    def stop(self) -> int:
        """Ask it to stop; its exit status."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._ends_within(self.stops_within)
        except subprocess.TimeoutExpired:
            for child in self._children():
                child.kill()
            self._process.send_signal(signal.SIGKILL)
            return self._process.wait()

    def _ends_within(self, seconds: float) -> int:
        """Its exit status, once it has ended; longer on a machine that is slow when they are over."""
        assert self._process is not None
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return self._process.wait(seconds * (slowness() - 1.0))

    def crash(self) -> int:
        """Kill both its processes, frozen or not; the exit status of what had started them.

        Their kernel closes their connections. A machine that loses its power does not: see `freeze`.
        """
        assert self._process is not None
        for child in self._children():
            child.kill()
        self._process.send_signal(signal.SIGCONT)
        return self._ends_within(STOP_SECONDS)

    def freeze(self) -> None:
        """Stop all its processes where they are: connections stay open, and nothing is said on them."""
        for process in self.processes():
            process.suspend()

    def kill(self, name: str) -> int:
        """Kill one of the two processes (``io``, ``cluster``); the exit status of what had started them.

        It stops the other process gracefully and ends, because Kubernetes restarts both. Those of a forked worker have
        the same command line.
        """
        assert self._process is not None
        assert not isinstance(self._process, ForkedWorker), "set `preloaded` to None, so that the worker is started"
        (child,) = [child for child in self._children() if f"worker.runtime.{name}_process" in child.cmdline()]
        child.kill()
        return self._ends_within(STOP_SECONDS)

    def memory(self) -> dict[str, int]:
        """The resident bytes of each of its processes, by what it runs."""
        sizes = {}
        for child in self._children():
            with suppress(psutil.NoSuchProcess):
                sizes[" ".join(child.cmdline()[1:3])] = child.memory_info().rss
        return sizes

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def processes(self) -> list[psutil.Process]:
        """What had started the others, and those."""
        assert self._process is not None
        return [psutil.Process(self._process.pid), *self._children()]

    def _children(self) -> list[psutil.Process]:
        assert self._process is not None
        return psutil.Process(self._process.pid).children(recursive=True)

    def page(self, path: str) -> str:
        """What its metrics port answers for a path."""
        url = f"http://127.0.0.1:{self._environment['METRICS_PORT']}{path}"
        with urllib.request.urlopen(url, timeout=60) as answer:
            text: str = answer.read().decode()
            return text
