"""The parent of a worker: starts the io process and the cluster process, serves the probes, and stops both together.

When one process dies, the parent stops the other and exits with an error, so that Kubernetes restarts the container.
``tenon worker`` reads the settings and then replaces itself with this module, which gets them as environment variables.
So the parent, which lives as long as the worker, does not hold the 30 MB that reading them takes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from worker.runtime.child_processes import EXIT_UNUSABLE, METRICS_FOLDER, PID_SUFFIX, REPORT_FD, TEMPORAL_METRICS
from worker.runtime.health import Health, serve_metrics, serve_probes
from worker.runtime.memory import PARENT

PROCESSES = ("io", "cluster")
STOP_TIMEOUT = 45.0
"""Seconds that a process has to finish its running activities after SIGTERM."""
LEAVE_TIMEOUT = 240.0
"""Seconds that it has before that, with WORKER_VERSIONING=Automatic, until its runs have gone to another version."""


class Child(NamedTuple):
    """A child process, and the thread that reads its health reports."""

    process: subprocess.Popen[bytes]
    listener: threading.Thread


def run(settings: Mapping[str, str]) -> int:
    """Run until a signal arrives or a child ends. Returns the exit status.

    ``settings``: the environment for the children, as `Settings.as_environment` returns it.
    """
    with tempfile.TemporaryDirectory(prefix="tenon-metrics-") as metrics:
        health = Health(list(PROCESSES))
        addresses = {name: f"127.0.0.1:{port}" for name, port in zip(PROCESSES, free_ports(2), strict=True)}
        try:
            servers = _serve(settings, health, metrics, list(addresses.values()))
        except OSError as error:
            print(error, file=sys.stderr)
            return EXIT_UNUSABLE
        children = {name: _start(name, settings, metrics, health, addresses[name]) for name in PROCESSES}
        stopping = threading.Event()

        def stop(_number: int, _frame: FrameType | None) -> None:
            stopping.set()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        try:
            while not stopping.wait(0.2):
                if any(child.process.poll() is not None for child in children.values()):
                    break
            printed = _print_failures(children, health, set())
            processes = {name: child.process for name, child in children.items()}
            if not stopping.is_set():
                _print_kills(processes, int(settings["MEMORY_LIMIT"]))
            more = LEAVE_TIMEOUT if settings.get("WORKER_VERSIONING") == "Automatic" else 0.0
            status = _stop(processes, STOP_TIMEOUT + more, is_requested=stopping.is_set())
            _print_failures(children, health, printed)
            return status
        finally:
            for server in servers:
                server.shutdown()


def free_ports(number: int) -> list[int]:
    """Ports on loopback that no one listens on, for what cannot say which port it chose itself."""
    with contextlib.ExitStack() as stack:
        listening = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(number)]
        return [server.getsockname()[1] for server in listening]


def _serve(
    settings: Mapping[str, str], health: Health, metrics: str, addresses: Sequence[str]
) -> list[ThreadingHTTPServer]:
    name = "HEALTH_PROBE_PORT"
    try:
        servers = [serve_probes(health, int(settings[name]))]
        name = "METRICS_PORT"
        profiling = settings["ENABLE_PROFILING"] == "true"
        servers.append(serve_metrics(metrics, int(settings[name]), profiling=profiling, addresses=addresses))
        return servers
    except OSError as error:
        raise OSError(f"Port {settings[name]} cannot be used ({error.strerror}): set {name} to a free one.") from None


def _start(name: str, settings: Mapping[str, str], metrics: str, health: Health, address: str) -> Child:
    reads, writes = os.pipe()
    environment = dict(settings)
    environment[METRICS_FOLDER] = metrics
    environment[TEMPORAL_METRICS] = f"{name} {address}"
    environment[REPORT_FD] = str(writes)
    environment[PARENT] = str(os.getpid())
    # Without docstrings and assertions, which only help those who read or check the code: 4 to 6 MB less each.
    process = subprocess.Popen(
        [sys.executable, "-OO", "-m", f"worker.runtime.{name}_process"],
        env=environment,
        pass_fds=(writes,),
        start_new_session=True,
    )
    Path(metrics, f"{name}{PID_SUFFIX}").write_text(str(process.pid))
    os.close(writes)
    stream = os.fdopen(reads, "r", encoding="utf-8")
    listener = threading.Thread(target=health.listen, args=(name, stream), name=f"health-{name}", daemon=True)
    listener.start()
    return Child(process, listener)


def _print_failures(children: dict[str, Child], health: Health, printed: set[str]) -> set[str]:
    """Print the failures that ended children reported, each sentence once. Returns all sentences printed so far."""
    for child in children.values():
        if child.process.poll() is not None:
            child.listener.join(1.0)
    for sentence in health.failures():
        if sentence not in printed:
            print(sentence, file=sys.stderr, flush=True)
    return printed.union(health.failures())


def _print_kills(children: Mapping[str, subprocess.Popen[bytes]], memory_limit: int) -> None:
    """Print which signal ended a child. The kernel sends SIGKILL when the container has no memory left, and a child
    cannot report that itself.
    """
    for name, child in children.items():
        number = -(child.poll() or 0)
        if number <= 0:
            continue
        signal_numbers = {signal_.value for signal_ in signal.Signals}
        text = f"signal {number} ({signal.Signals(number).name})" if number in signal_numbers else f"signal {number}"
        if number == signal.SIGKILL:
            limit = f"limit {memory_limit // 2**20} MiB" if memory_limit > 0 else "MEMORY_LIMIT is not set"
            text += f", probably out of memory ({limit})"
        print(f"The {name} process was killed by {text}; the worker stops.", file=sys.stderr, flush=True)


def _stop(children: dict[str, subprocess.Popen[bytes]], timeout: float, *, is_requested: bool) -> int:
    for child in children.values():
        if child.poll() is None:
            child.terminate()
    deadline = time.monotonic() + timeout
    for name, child in children.items():
        try:
            child.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            print(f"the {name} process did not stop within {timeout:.0f} s and was killed", file=sys.stderr)
            child.kill()
            child.wait()
    codes = [child.returncode for child in children.values()]
    if is_requested:
        return 0 if all(code in (0, -signal.SIGTERM) for code in codes) else 1
    return EXIT_UNUSABLE if EXIT_UNUSABLE in codes else 1


if __name__ == "__main__":
    sys.exit(run(os.environ))
