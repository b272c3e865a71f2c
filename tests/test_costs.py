"""What a run says about its cost."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.costs import cpu_seconds, summary

COMPUTES = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"


def test_the_dearest_files_come_first_and_the_sum_is_of_all() -> None:
    seconds = {"tests/test_a.py": 1.0, "tests/test_b.py": 12.34, "tests/test_c.py": 3.0}
    assert summary(seconds, 2) == [
        "    12.3  tests/test_b.py",
        "     3.0  tests/test_c.py",
        "    16.3  CPU-seconds in all",
    ]


@pytest.mark.integration
def test_what_started_processes_use_counts_while_they_run_and_after() -> None:
    before = cpu_seconds()
    with subprocess.Popen([sys.executable, "-c", COMPUTES], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        running = cpu_seconds()
        child.communicate(b"\n")
    assert running - before >= 0.25
    assert cpu_seconds() - before >= 0.25
