"""Finds a worker that was left running next to a sandbox, by its process ID, so that it can be stopped."""

from __future__ import annotations

from pathlib import Path

import psutil

FILE = "worker.pid"
STOP_SECONDS = 60.0
COMMANDS = (["cli", "worker"], ["-m", "worker.main"])
"""How the command line of a worker's parent ends: while it reads its settings, and from then on."""


def note(folder: Path, pid: int) -> None:
    """Record the process ID of the worker of the sandbox in ``folder``."""
    (folder / FILE).write_text(str(pid), encoding="utf-8")


def find(folder: Path) -> psutil.Process | None:
    """The worker. None if it no longer runs."""
    try:
        process = psutil.Process(int((folder / FILE).read_text(encoding="utf-8")))
        is_worker = process.cmdline()[-2:] in COMMANDS
    except (FileNotFoundError, ValueError, psutil.Error):
        return None
    return process if is_worker else None


def has_died(folder: Path) -> bool:
    """Whether a worker was started, was not stopped, and no longer runs."""
    return (folder / FILE).exists() and find(folder) is None


def stop(folder: Path) -> bool:
    """Stop the worker. Returns False if none was running."""
    process = find(folder)
    if process is None:
        (folder / FILE).unlink(missing_ok=True)
        return False
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except psutil.TimeoutExpired:
        process.kill()
    (folder / FILE).unlink(missing_ok=True)
    return True
