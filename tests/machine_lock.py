"""Runs a test marked ``alone`` while no other process of the test run executes a test.

Such a test checks what holds only while the machine has a core left, for example that a leader under load renews its
Lease within ten seconds. Other tests wait for conditions, so they share the machine.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "alone: no other process of this test run executes a test meanwhile")


@pytest.hookimpl(wrapper=True, tryfirst=True)  # outside pytest-timeout, so that waiting does not count
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    if "PYTEST_XDIST_WORKER" not in os.environ or item.config.cache is None:
        return (yield)
    with machine(item.config.cache.mkdir("machine"), alone=item.get_closest_marker("alone") is not None):
        return (yield)


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
