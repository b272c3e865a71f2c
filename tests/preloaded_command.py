"""Runs commands of ``tenon`` as processes that have loaded their modules already.

A command takes a CPU-second, most of which goes into loading modules. So a server loads them once and forks for each
command. As in a shell, the command is a process with its own arguments, environment, folder and output. That commands
also run in processes that have loaded nothing is shown by `tests/cli/test_without_extras.py`, `tests/docs` and others.

``python -m tests.preloaded_command SOCKET`` is the server. It says ``ready`` on its standard output, and ends with its
parent. `tests.preloaded_worker` is such a server for workers.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from activities.kubernetes import credential_files
from sandbox.parent_death import dying_with_parent

MAX_REQUEST = 1_000_000
"""Bytes of the arguments and the environment of one command."""


class Preloaded:
    """The client of a server that has loaded modules and forks for each request."""

    def __init__(self, folder: Path, *server: str, environment: Mapping[str, str] | None = None) -> None:
        """``server`` are the arguments of Python that run it.

        ``folder`` gets the socket; its path must be short, as those of all Unix sockets.
        """
        self._address = str(folder / "tenon.socket")
        command = dying_with_parent(sys.executable, *server, self._address)
        self._server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment)
        assert self._server.stdout is not None
        ready = self._server.stdout.readline()
        assert ready == b"ready\n", f"the server {server} said {ready!r}"

    def ask(self, request: Mapping[str, object], *descriptors: int) -> socket.socket:
        """Send a request and files. The connection has the answers."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.connect(self._address)
        socket.send_fds(connection, [json.dumps(request).encode()], descriptors)
        return connection

    def close(self) -> None:
        """End the server."""
        assert self._server.stdout is not None
        self._server.terminate()
        self._server.wait()
        self._server.stdout.close()


class PreloadedCommand(Preloaded):
    """Runs any number of commands at the same time."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "-m", "tests.preloaded_command")

    def run(
        self, arguments: Sequence[str], environment: Mapping[str, str], seconds: int
    ) -> subprocess.CompletedProcess[str]:
        """Run ``tenon`` with these arguments and only this environment.

        Raises:
            TimeoutExpired: it ran for so many seconds, and was killed.
        """
        request = {
            "arguments": [*arguments],
            "environment": {**environment},
            "folder": str(Path.cwd()),
            "seconds": seconds,
        }
        with (
            tempfile.TemporaryFile() as output,
            tempfile.TemporaryFile() as errors,
            self.ask(request, output.fileno(), errors.fileno()) as connection,
        ):
            answer = connection.recv(16)
            assert answer, "the server of commands has ended"
            status = int(answer)
            output.seek(0)
            errors.seek(0)
            stdout, stderr = output.read().decode(), errors.read().decode()
        if status == -signal.SIGALRM:
            raise subprocess.TimeoutExpired([*arguments], seconds, stdout, stderr)
        return subprocess.CompletedProcess([*arguments], status, stdout, stderr)


def serve(address: str, answer: Callable[[socket.socket], NoReturn]) -> NoReturn:
    """Fork for each request. Call this once all modules are loaded."""
    gc.freeze()  # a collection in a fork would write to, and so copy, all that the server has loaded
    if len(os.listdir("/proc/self/task")) > 1:
        sys.exit("a module has started a thread, which no fork has")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen(64)
        print("ready", flush=True)
        while True:
            connection, _ = listener.accept()
            with suppress(
                ChildProcessError
            ):  # waiting for those that answered counts their processor time: tests.costs
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            with connection:
                if os.fork() == 0:
                    listener.close()
                    answer(connection)


def receive(connection: socket.socket) -> tuple[Any, list[int]]:
    """The request of a connection, and the files that came with it."""
    message, descriptors, _, _ = socket.recv_fds(connection, MAX_REQUEST, 2)
    return json.loads(message), [*descriptors]


def send_end(connection: socket.socket, process: int) -> NoReturn:
    """Wait for a process, say how it ended, and end."""
    _, status = os.waitpid(process, 0)
    with suppress(OSError):  # the test has ended
        connection.send(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def take_over(environment: Mapping[str, str], output: int, errors: int) -> None:
    """Have this environment and this output from now on."""
    os.dup2(output, 1)
    os.dup2(errors, 2)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()


def run_command(*arguments: str) -> NoReturn:
    """Become this command."""
    from cli.main import main

    sys.argv = ["tenon", *arguments]
    try:
        main()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    else:
        status = 0
    credential_files.remove()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _answer(connection: socket.socket) -> NoReturn:
    """Run one command in a process of its own."""
    request, descriptors = receive(connection)
    command = os.fork()
    if command == 0:
        connection.close()
        signal.alarm(request["seconds"])
        os.chdir(request["folder"])
        take_over(request["environment"], *descriptors)
        run_command(*request["arguments"])
    send_end(connection, command)


def _load() -> None:
    """Load the modules of all commands."""
    from cli import main
    from cli.commands import COMMANDS, module_of

    os.environ.update(main.QUICK)
    for name in COMMANDS:
        import_module(module_of(name))


if __name__ == "__main__":
    _load()
    serve(sys.argv[1], _answer)
