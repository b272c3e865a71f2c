"""The lock between the processes of a test run."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.machine_lock import machine
from tests.workflows.waiting import until


def is_locked(path: Path) -> bool:
    """Whether somebody holds this file's lock."""
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


async def test_a_test_that_must_be_alone_waits_for_running_tests_and_goes_before_new_ones(tmp_path: Path) -> None:
    names: list[str] = []

    def hold(name: str, alone: bool) -> None:
        with machine(tmp_path, alone=alone):
            names.append(f"{name} starts")
            names.append(f"{name} ends")

    async def waits_alone() -> bool:
        return is_locked(tmp_path / "gate")

    # Two processes share the machine.
    with ThreadPoolExecutor() as threads, machine(tmp_path, alone=False), machine(tmp_path, alone=False):
        threads.submit(hold, "alone", True)
        await until(waits_alone)
        threads.submit(hold, "new", False)
        assert names == []
    assert names == ["alone starts", "alone ends", "new starts", "new ends"]


ALONE = """
import pathlib, pytest
@pytest.mark.alone
def test_alone(): pathlib.Path("order").open("a").write("alone ")
"""
SHARED = """
import pathlib
def test_shared(): pathlib.Path("order").open("a").write("shared ")
"""


@pytest.mark.integration
def test_tests_that_must_be_alone_run_before_all_others_of_the_run(tmp_path: Path) -> None:
    """However late the process of such a test begins."""
    slow_start = "import time; time.sleep(1.0)\n"
    (tmp_path / "test_a.py").write_text(slow_start + ALONE)
    (tmp_path / "test_b.py").write_text(SHARED)
    (tmp_path / "test_c.py").write_text(slow_start + ALONE)
    options = ("-n", "3", "--dist", "loadfile", "-p", "tests.machine_lock", "-p", "no:looptime", "--rootdir", ".")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        check=False,
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(Path(__file__).parent.parent)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "3 passed" in run.stdout, run.stdout + run.stderr
    assert (tmp_path / "order").read_text() == "alone alone shared "
