"""Runs commands of ``tenon`` as processes that have loaded their modules already.

A command takes a CPU-second, most of which goes into loading modules. So a server loads them once and forks for each
command. As in a shell, the command is a process with its own arguments, environment, folder and output. That commands
also run in processes that have loaded nothing is shown by `tests/cli/test_without_extras.py`, `tests/docs` and others.

``python -m tests.preloaded_command SOCKET`` is the server. It says ``ready`` on its standard output, and ends with its
parent.
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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from sandbox.parent_death import dying_with_parent

MAX_REQUEST = 1_000_000
"""Bytes of the arguments and the environment of one command."""


class PreloadedCommand:
    """The client of a server, for any number of commands at the same time."""

    def __init__(self, folder: Path) -> None:
        """``folder`` gets the socket; its path must be short, as those of all Unix sockets."""
        self._address = str(folder / "tenon.socket")
        command = dying_with_parent(sys.executable, "-m", "tests.preloaded_command", self._address)
        self._server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        assert self._server.stdout is not None
        ready = self._server.stdout.readline()
        assert ready == b"ready\n", f"the server of commands said {ready!r}"

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
            socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection,
        ):
            connection.connect(self._address)
            socket.send_fds(connection, [json.dumps(request).encode()], [output.fileno(), errors.fileno()])
            answer = connection.recv(16)
            assert answer, "the server of commands has ended"
            status = int(answer)
            output.seek(0)
            errors.seek(0)
            stdout, stderr = output.read().decode(), errors.read().decode()
        if status == -signal.SIGALRM:
            raise subprocess.TimeoutExpired([*arguments], seconds, stdout, stderr)
        return subprocess.CompletedProcess([*arguments], status, stdout, stderr)

    def close(self) -> None:
        """End the server."""
        assert self._server.stdout is not None
        self._server.terminate()
        self._server.wait()
        self._server.stdout.close()


def serve(address: str) -> NoReturn:
    """Load the modules of all commands, and fork for each request."""
    from cli import main
    from cli.commands import COMMANDS, module_of

    os.environ.update(main.QUICK)
    for name in COMMANDS:
        import_module(module_of(name))
    gc.freeze()  # a collection in a fork would write to, and so copy, all that the server has loaded
    threads = os.listdir("/proc/self/task")
    assert len(threads) == 1, "a module has started a thread, which no fork has"
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that answer
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen(64)
        print("ready", flush=True)
        while True:
            connection, _ = listener.accept()
            with connection:
                if os.fork() == 0:
                    listener.close()
                    _answer(connection)


def _answer(connection: socket.socket) -> NoReturn:
    """Run one command in a process of its own, and say how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    message, descriptors, _, _ = socket.recv_fds(connection, MAX_REQUEST, 2)
    request = json.loads(message)
    command = os.fork()
    if command == 0:
        connection.close()
        signal.alarm(request["seconds"])
        os.chdir(request["folder"])
        _run(request["arguments"], request["environment"], *descriptors)
    _, status = os.waitpid(command, 0)
    with suppress(OSError):  # the test has ended
        connection.send(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _run(arguments: list[str], environment: dict[str, str], output: int, errors: int) -> NoReturn:
    """Become the command."""
    from cli.main import main

    os.dup2(output, 1)
    os.dup2(errors, 2)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
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
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    serve(sys.argv[1])
