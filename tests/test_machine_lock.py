"""The lock between the processes of a test run."""

from __future__ import annotations

import fcntl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

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
