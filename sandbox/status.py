"""The status file of a sandbox: the supervisor writes it, the command line reads it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

import psutil
from pydantic import BaseModel, ValidationError

BIRTH_TOLERANCE = 2.0
"""Seconds by which a process's start time may differ, because it moves when the system clock is corrected."""


class State(StrEnum):
    """The state of a sandbox or a component."""

    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"
    FROZEN = "frozen"
    """Components only: the process is suspended by a signal and keeps its connections."""


class Process(BaseModel):
    """A process, identified by PID and start time, so that it is not confused with a later process with the
    same PID.
    """

    pid: int
    created: float

    @classmethod
    def of(cls, pid: int) -> Process:
        """The running process ``pid``.

        Raises:
            psutil.NoSuchProcess: there is none.
        """
        return cls(pid=pid, created=psutil.Process(pid).create_time())

    @classmethod
    def started(cls, pid: int) -> Process:
        """The child process ``pid``, which was just started, and may have ended already."""
        try:
            return cls.of(pid)
        except psutil.NoSuchProcess:
            return cls(pid=pid, created=0.0)

    def alive(self) -> bool:
        """Whether the process runs. A zombie does not."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.created) < BIRTH_TOLERANCE
            return same and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    def signal(self, number: signal.Signals) -> None:
        """Send the process a signal if it runs."""
        if self.alive():
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return  # it has just ended, which was the purpose of the signal


class ComponentStatus(BaseModel):
    """One component of the sandbox."""

    state: State = State.STARTING
    process: Process | None = None
    seconds: float | None = None
    """Seconds from its start until it was ready."""
    log: str = ""


class Addresses(BaseModel):
    """Addresses of a running sandbox, all on loopback."""

    kubernetes: str
    temporal: str
    temporal_ui: str | None = None
    """Only the dev server has one."""
    ec2: str | None = None


class Status(BaseModel):
    """The status of the whole sandbox."""

    state: State
    message: str = ""
    supervisor: Process | None = None
    addresses: Addresses | None = None
    components: dict[str, ComponentStatus] = {}

    def write(self, path: Path) -> None:
        """Replace the file atomically, so that a reader never sees half of it."""
        scratch = path.with_suffix(".new")
        scratch.write_text(self.model_dump_json(indent=2))
        scratch.replace(path)

    @property
    def running(self) -> bool:
        """Whether the supervisor runs."""
        return self.supervisor is not None and self.supervisor.alive()

    @property
    def not_running(self) -> dict[str, State]:
        """The components that do not run, by name, while the supervisor says that the sandbox is ready."""
        if self.state is not State.READY:
            return {}
        states = {name: part.state for name, part in self.components.items()}
        names = {name for name, part in self.components.items() if part.process and not part.process.alive()}
        ended = {name: State.STOPPED if name in names else state for name, state in states.items()}
        return {name: state for name, state in ended.items() if state is not State.READY}

    def leftovers(self) -> list[Process]:
        """Components that outlived their supervisor. This happens only where the kernel does not end them with it."""
        return [part.process for part in self.components.values() if part.process and part.process.alive()]


def read(path: Path) -> Status | None:
    """Read the status in ``path``. None if there is none. If its supervisor was killed, the state is FAILED."""
    try:
        status = Status.model_validate_json(path.read_text())
    except (FileNotFoundError, ValidationError):
        return None
    if status.state in (State.STARTING, State.READY, State.STOPPING) and not status.running:
        status.state = State.FAILED
        status.message = "The supervisor was killed; nothing runs. `tenon sandbox up` starts a new sandbox."
        for part in status.components.values():
            part.state = State.READY if part.process and part.process.alive() else State.STOPPED
    return status


def kill(processes: Iterable[Process]) -> None:
    """Kill processes whose supervisor is gone."""
    for process in processes:
        process.signal(signal.SIGKILL)
