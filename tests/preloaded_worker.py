"""Runs workers whose three processes have loaded their modules already.

A worker takes three CPU-seconds to start, nearly all of which go into loading modules, and a test run starts some
sixty. So a server loads them once and forks: for ``tenon worker``, which reads the settings, for the parent, and for
both its children. Each has the environment, the signals, the session and the files that it has when it is started.
They only have a lower priority (`tests.processor_share`).

Workers with variables that Python reads when it starts are started, and so are those of the drills.

``python -OO -m tests.preloaded_worker SOCKET`` is the server.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, NoReturn

from activities.kubernetes import credential_files
from tests.preloaded_command import Preloaded, receive, run_command, send_end, serve, take_over
from tests.processor_share import yield_processor
from worker.runtime.child_processes import METRICS_FOLDER

_LOADER = os.getpid()
"""The process that loaded this module: in a fork, the server."""


class PreloadedWorker(Preloaded):
    """Starts any number of workers."""

    def __init__(self, folder: Path) -> None:
        self._metrics = str(folder)  # the Prometheus client reads it when it is loaded, and when the settings are read
        environment = {**os.environ, METRICS_FOLDER: self._metrics}
        super().__init__(folder, "-OO", "-m", "tests.preloaded_worker", environment=environment)

    def start(self, environment: Mapping[str, str], log: IO[bytes]) -> ForkedWorker:
        """Start a worker with only this environment."""
        request = {"environment": {**environment, METRICS_FOLDER: self._metrics}, "folder": str(Path.cwd())}
        return ForkedWorker(self.ask(request, log.fileno()))


class ForkedWorker:
    """The parent process of a worker, with the methods of a `subprocess.Popen`. It is no child of this process."""

    def __init__(self, connection: socket.socket) -> None:
        self.pid = int(connection.recv(16))
        self.returncode: int | None = None
        self._ended = threading.Event()
        threading.Thread(target=self._follow, args=(connection,), daemon=True).start()

    def _follow(self, connection: socket.socket) -> None:
        with connection:
            self.returncode = int(connection.recv(16) or -signal.SIGKILL)  # what answers may be killed
        self._ended.set()

    def poll(self) -> int | None:
        """The exit status; None while it runs."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit status, once it has ended.

        Raises:
            TimeoutExpired: it runs after so many seconds.
        """
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired("tenon worker", timeout or 0.0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal to it, if it runs."""
        if self.returncode is None:
            os.kill(self.pid, number)


class _Child(subprocess.Popen[bytes]):
    """A process that continues from here, with modules that are loaded, where a worker's parent starts one."""

    def _execute_child(
        self,
        command: Sequence[str],
        _executable: object,
        _preexec: object,
        _close: object,
        pass_fds: Sequence[int],
        _folder: object,
        environment: Mapping[str, str],
        *_rest: object,
    ) -> None:
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            yield_processor()
            _leave_connections(pass_fds)
            _keep_metrics(os.environ[METRICS_FOLDER], environment[METRICS_FOLDER])
            take_over(environment, 1, 2)
            module = import_module(command[-1])
            name = command[-1].rpartition(".")[2].removesuffix("_process")
            _end_with(lambda: import_module("worker.runtime.process").run(name, module.main))
        self._child_created = True


def _leave_connections(keep: Sequence[int]) -> None:
    """Have no socket and no pipe of the parent: its ports are free and its pipes are broken once it ends.

    Objects that close a file later, which is no longer theirs, must not close another.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor > 2 and descriptor not in keep:
            try:
                mode = os.fstat(descriptor).st_mode
            except OSError:  # that of the listing
                continue
            if stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode):
                os.dup2(nothing, descriptor)
    os.close(nothing)


def _keep_metrics(loaded: str, own: str) -> None:
    """Begin with what modules set when they were loaded. The Prometheus client reads its files again after a fork."""
    for file in Path(loaded).glob(f"*_{_LOADER}.db"):
        shutil.copyfile(file, Path(own, file.name.replace(f"_{_LOADER}.", f"_{os.getpid()}.")))


def _answer(connection: socket.socket) -> NoReturn:
    """Run one worker."""
    request, (log,) = receive(connection)
    worker = os.fork()
    if worker == 0:
        connection.close()
        os.setsid()
        yield_processor()
        os.chdir(request["folder"])
        take_over(request["environment"], log, log)
        os.close(log)
        _end_with(_run)
    os.close(log)
    connection.send(str(worker).encode())
    send_end(connection, worker)


def _run() -> int:
    """Be ``tenon worker``: read the settings in another process, because `worker.main` starts without their traces."""
    from worker import main

    reads, writes = os.pipe()
    command = os.fork()
    if command == 0:
        os.close(reads)

        def execve(_program: str, _arguments: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
            with os.fdopen(writes, "w") as settings:
                json.dump(environment, settings)
            os._exit(0)

        vars(os)["execve"] = execve
        run_command("worker")
    os.close(writes)
    with os.fdopen(reads) as settings:
        text = settings.read()
    _, status = os.waitpid(command, 0)
    if not text:
        return os.waitstatus_to_exitcode(status)
    os.environ.update(json.loads(text))
    vars(main)["subprocess"] = SimpleNamespace(Popen=_Child, TimeoutExpired=subprocess.TimeoutExpired)
    return main.run(os.environ)


def _end_with(status: Callable[[], Any]) -> NoReturn:
    try:
        code = status()
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    credential_files.remove()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _load() -> None:
    """Load the modules of all three processes."""
    from cli import main

    os.environ.update(main.QUICK)
    for name in ("cli.worker", "worker.main", "worker.runtime.io_process", "worker.runtime.cluster_process"):
        import_module(name)


if __name__ == "__main__":
    _load()
    serve(sys.argv[1], _answer)
