"""A worker that was left running beside a sandbox: found again by its process id, so that nothing stays behind."""

from __future__ import annotations

from pathlib import Path

import psutil

FILE = "worker.pid"
STOP_SECONDS = 60.0


def note(folder: Path, pid: int) -> None:
    """Remember the worker of the sandbox in ``folder``."""
    (folder / FILE).write_text(str(pid), encoding="utf-8")


def find(folder: Path) -> psutil.Process | None:
    """The worker, if it still runs."""
    try:
        process = psutil.Process(int((folder / FILE).read_text(encoding="utf-8")))
        is_worker = process.cmdline()[-2:] == ["cli", "worker"]
    except (FileNotFoundError, ValueError, psutil.Error):
        return None
    return process if is_worker else None


def stop(folder: Path) -> bool:
    """Stop the worker; False when none ran."""
    process = find(folder)
    if process is None:
        return False
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except psutil.TimeoutExpired:
        process.kill()
    (folder / FILE).unlink(missing_ok=True)
    return True
