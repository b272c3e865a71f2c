"""What a sandbox is doing, in a file that anyone can read: written by the supervisor, read by the command line."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

import psutil
from pydantic import BaseModel, ValidationError

BIRTH_TOLERANCE = 2.0
"""Seconds: a corrected system clock moves what the kernel says of a process's birth."""


class State(StrEnum):
    """A sandbox's and a component's life."""

    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"
    FROZEN = "frozen"
    """Of a component only: its process is stopped by a signal and keeps its connections."""


class Process(BaseModel):
    """A process that cannot be mistaken for a later one with the same number: its birth is part of its name."""

    pid: int
    created: float

    @classmethod
    def of(cls, pid: int) -> Process:
        """The process ``pid`` as it is now; raises psutil.NoSuchProcess."""
        return cls(pid=pid, created=psutil.Process(pid).create_time())

    def alive(self) -> bool:
        """Whether it runs: a zombie that nobody has collected does not."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.created) < BIRTH_TOLERANCE
            return same and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal if it lives."""
        if self.alive():
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return  # it ended in between, which is what the signal was for


class ComponentStatus(BaseModel):
    """One component of the sandbox."""

    state: State = State.STARTING
    process: Process | None = None
    seconds: float | None = None
    """From its start until it was ready."""
    log: str = ""


class Addresses(BaseModel):
    """Where a running sandbox is reached: all on loopback."""

    kubernetes: str
    temporal: str
    temporal_ui: str
    ec2: str | None = None


class Status(BaseModel):
    """The whole sandbox."""

    state: State
    message: str = ""
    supervisor: Process | None = None
    addresses: Addresses | None = None
    components: dict[str, ComponentStatus] = {}

    def write(self, path: Path) -> None:
        """Replace the file in one step, so that a reader never sees half of it."""
        scratch = path.with_suffix(".new")
        scratch.write_text(self.model_dump_json(indent=2))
        scratch.replace(path)

    @property
    def running(self) -> bool:
        """Whether the supervisor lives."""
        return self.supervisor is not None and self.supervisor.alive()

    def leftovers(self) -> list[Process]:
        """Components that outlived their supervisor: only where the kernel does not end them with it."""
        return [part.process for part in self.components.values() if part.process and part.process.alive()]


def read(path: Path) -> Status | None:
    """The status in ``path``; None when there is none. One whose supervisor was killed reads as failed."""
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
    """End processes that nobody else will."""
    for process in processes:
        process.signal(signal.SIGKILL)
