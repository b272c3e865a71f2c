"""The component that runs PostgreSQL: ``python -m sandbox.temporal.postgresql --folder FOLDER --port PORT ...``.

PostgreSQL refuses to run as root. For root another user runs it and owns its data. That user may not enter the state
folder, so it reaches the data through a descriptor of the folder that was open before. It listens on loopback only and
asks for a password, because a client that connects may run programs as that user.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from sandbox.parent_death import die_with
from sandbox.ports import LOOPBACK
from sandbox.temporal import programs, readiness
from tenon.errors import TenonError

USER = "temporal"
"""PostgreSQL's own superuser, and Temporal's user."""
PASSWORD = "password"
DATA = "data"
LOST_WITH_THE_MACHINE = ("fsync=off", "full_page_writes=off")
"""A database that is deleted with its sandbox must survive an end of PostgreSQL, but not a crash of the machine."""
POLL_SECONDS = 0.05


class PostgreSQLError(TenonError):
    """PostgreSQL could not be started. The message is a sentence."""


class Database:
    """The data in one folder, as the user that owns it."""

    def __init__(self, folder: Path) -> None:
        """Create the folder if it is missing.

        Raises:
            PostgreSQLError: this machine has no PostgreSQL.
        """
        path = programs.postgresql()
        if path is None or programs.unable():
            raise PostgreSQLError(programs.unable())
        self._programs = path
        self._owner = programs.user() if os.geteuid() == 0 else None
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        self._give(folder)

    def create(self) -> None:
        """Create the data if there are none.

        Raises:
            PostgreSQLError: PostgreSQL could not create them.
        """
        data, new = self._folder / DATA, self._folder / f"{DATA}.new"
        if data.exists():
            return
        shutil.rmtree(new, ignore_errors=True)  # of a start that was killed
        password = self._folder / PASSWORD
        password.touch(mode=0o600)
        password.write_text(secrets.token_hex(16))
        self._give(password)
        command = [
            str(self._programs / "initdb"),
            f"--pgdata={self._path(new)}",
            f"--username={USER}",
            f"--pwfile={self._path(password)}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
        ]
        answer = subprocess.run(command, capture_output=True, text=True, check=False, **self._as_owner())
        if answer.returncode != 0:
            raise PostgreSQLError(f"PostgreSQL could not create its data: {answer.stderr.strip()[-500:]}.")
        new.rename(data)

    async def start(self, port: int, *, keep: bool) -> asyncio.subprocess.Process:
        """Start PostgreSQL. With ``keep``, its data survive a crash of the machine."""
        await asyncio.to_thread(self._forget_killed)
        settings = [f"listen_addresses={LOOPBACK}", "unix_socket_directories=", "max_connections=200"]
        settings += [] if keep else LOST_WITH_THE_MACHINE
        words = [word for setting in settings for word in ("-c", setting)]
        data = self._path(self._folder / DATA)
        return await asyncio.create_subprocess_exec(
            str(self._programs / "postgres"), "-D", data, "-p", str(port), *words, **self._as_owner()
        )

    async def until_it_answers(self, port: int) -> None:
        """Wait until PostgreSQL accepts connections."""
        while True:
            subprocess_exec = await asyncio.create_subprocess_exec(
                *(str(self._programs / "pg_isready"), "--quiet", f"--host={LOOPBACK}", f"--port={port}")
            )
            if await subprocess_exec.wait() == 0:
                return
            await asyncio.sleep(POLL_SECONDS)

    def _forget_killed(self) -> None:
        """Remove the lock of a PostgreSQL that was killed, when all its processes have ended.

        PostgreSQL does so by itself, but it also takes a zombie for a running server.
        """
        data = self._folder / DATA
        while any(_works_in(process, data) for process in psutil.process_iter()):
            time.sleep(POLL_SECONDS)
        (data / "postmaster.pid").unlink(missing_ok=True)

    def _path(self, path: Path) -> str:
        """The path as the owner reaches it."""
        if self._owner is None:
            return str(path)
        return f"/proc/self/fd/{self._descriptor}/{path.relative_to(self._folder)}"

    def _give(self, path: Path) -> None:
        if self._owner is not None:
            os.chown(path, self._owner.pw_uid, self._owner.pw_gid)

    def _as_owner(self) -> dict[str, Any]:
        result: dict[str, Any] = {"cwd": "/", "preexec_fn": partial(die_with, os.getpid())}
        if self._owner is not None:
            owner = {"user": self._owner.pw_uid, "group": self._owner.pw_gid, "extra_groups": []}
            result |= {**owner, "pass_fds": [self._descriptor]}
        return result


def _works_in(process: psutil.Process, folder: Path) -> bool:
    try:
        return process.cwd() == str(folder.resolve())
    except psutil.Error:  # it has ended, is a zombie, or is another user's
        return False


async def run(folder: Path, port: int, ready: int, *, keep: bool) -> int:
    """Run PostgreSQL until a signal or its end. Returns the exit status: 1 if it ended by itself."""
    database = Database(folder)
    await asyncio.to_thread(database.create)
    process = await database.start(port, keep=keep)
    # SIGINT ends connections. On SIGTERM, PostgreSQL would wait until its clients leave.
    return await readiness.run(process, lambda: database.until_it_answers(port), ready, signal.SIGINT)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m sandbox.temporal.postgresql", description="Run one PostgreSQL.")
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--port", required=True, type=int)
    parser.add_argument("--ready", required=True, type=int)
    parser.add_argument("--keep", action="store_true", help="the data must survive a crash of the machine")
    options = parser.parse_args()
    try:
        return asyncio.run(run(options.folder, options.port, options.ready, keep=options.keep))
    except (OSError, PostgreSQLError) as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
