"""A worker that the demo left running."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sandbox import stale_worker

pytestmark = pytest.mark.integration

WAITS = "import sys; print('started', flush=True); sys.stdin.read()"


def start(*command: str) -> subprocess.Popen[bytes]:
    """Start a process whose command line ends like this. In its first moment Linux gives it no command line at all."""
    process = subprocess.Popen([sys.executable, "-c", WAITS, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"started\n"
    return process


@pytest.mark.parametrize("command", stale_worker.COMMANDS)
def test_a_left_worker_is_found_and_stopped(tmp_path: Path, command: list[str]) -> None:
    """`tenon sandbox down` leaves no worker behind."""
    with start(*command) as process:
        stale_worker.note(tmp_path, process.pid)
        assert stale_worker.find(tmp_path) is not None
        assert stale_worker.stop(tmp_path)
        assert process.poll() is not None
    assert stale_worker.find(tmp_path) is None


def test_another_process_of_that_id_is_left_alone(tmp_path: Path) -> None:
    """Process ids are used again: only a worker is stopped."""
    with start("something", "else") as process:
        stale_worker.note(tmp_path, process.pid)
        assert not stale_worker.stop(tmp_path)
        assert process.poll() is None
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(30) == 0


def test_without_a_note_no_worker_is_stopped(tmp_path: Path) -> None:
    assert not stale_worker.stop(tmp_path)
