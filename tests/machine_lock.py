"""Runs a test marked ``alone`` while no other process of the test run executes a test.

Such a test checks what holds only while the machine has a core left, for example that a leader under load renews its
Lease within ten seconds. Other tests wait for conditions, so they share the machine.

Tests that must be alone are the first of a run (`tests.file_order`), and others wait until they have run. Otherwise
each would wait for the longest test that began with it, and most processes would wait with it.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MAX_WAIT = 900.0
"""How many seconds other tests wait at most: a process may end in a test that must be alone, and never say so."""
POLL_SECONDS = 0.5
_ALONE = pytest.StashKey[int]()
"""How many tests of the run must be alone. Counted once: counting for each test asks all tests for all tests."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "alone: no other process of this test run executes a test meanwhile")


def pytest_collection_finish(session: pytest.Session) -> None:
    session.config.stash[_ALONE] = sum(map(_must_be_alone, session.items))


@pytest.hookimpl(wrapper=True, tryfirst=True)  # outside pytest-timeout, so that waiting does not count
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    if "PYTEST_XDIST_WORKER" not in os.environ or item.config.cache is None:
        return (yield)
    folder = item.config.cache.mkdir("machine")
    finished = folder / os.environ["PYTEST_XDIST_TESTRUNUID"]
    if not _must_be_alone(item):
        wait_for(finished, item.config.stash[_ALONE])
        with machine(folder, alone=False):
            return (yield)
    try:
        with machine(folder, alone=True):
            return (yield)
    finally:
        with open(finished, "a") as file:
            file.write(".")


def _must_be_alone(item: pytest.Item) -> bool:
    return item.get_closest_marker("alone") is not None


def wait_for(finished: Path, count: int, most: float = MAX_WAIT) -> None:
    """Wait until this file says that ``count`` tests that must be alone have run, at most ``most`` seconds."""
    until = time.monotonic() + most
    while count > (finished.stat().st_size if finished.exists() else 0) and time.monotonic() < until:
        time.sleep(POLL_SECONDS)


@contextmanager
def machine(folder: Path, *, alone: bool) -> Iterator[None]:
    """Hold the machine, shared or alone.

    A process that waits to be alone keeps the gate, so that new tests wait behind it and it gets its turn.
    """
    with open(folder / "gate", "w") as gate, open(folder / "lock", "w") as lock:
        fcntl.flock(gate, fcntl.LOCK_EX)
        fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(gate, fcntl.LOCK_UN)
        yield
