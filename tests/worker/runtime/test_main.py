"""The parent of a worker says why a child ended that cannot say it itself."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

from worker import main

pytestmark = pytest.mark.integration

WAITS = "import signal; signal.pause()"


@pytest.mark.parametrize(
    ("number", "limit", "sentence"),
    [
        (
            signal.SIGKILL,
            str(2 * 2**30),
            "The io process was killed by signal 9 (SIGKILL), probably out of memory (limit 2048 MiB); "
            "the worker stops.",
        ),
        (
            signal.SIGKILL,
            "-1",
            "The io process was killed by signal 9 (SIGKILL), probably out of memory (MEMORY_LIMIT is not set); "
            "the worker stops.",
        ),
        (signal.SIGSEGV, "-1", "The io process was killed by signal 11 (SIGSEGV); the worker stops."),
    ],
)
def test_a_child_that_is_killed_is_named_with_its_signal(
    number: int, limit: str, sentence: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def start(name: str, *_: Any) -> main.Child:
        code = f"import os; os.kill(os.getpid(), {number:d})" if name == "io" else WAITS
        listener = threading.Thread(target=lambda: None)
        listener.start()
        return main.Child(subprocess.Popen([sys.executable, "-c", code]), listener)

    monkeypatch.setattr(main, "_start", start)
    ports = {"HEALTH_PROBE_PORT": "0", "METRICS_PORT": "0", "ENABLE_PROFILING": "false"}
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    try:
        assert main.run({**ports, "MEMORY_LIMIT": limit}) == 1
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGINT, before[1])
    assert capfd.readouterr().err.splitlines() == [sentence]
