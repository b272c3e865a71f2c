"""Lets only a few tests on sandboxes begin while the machine is overloaded.

A virtual machine may do a tenth of its usual work for a quarter of an hour, because its host provides pages of memory
slowly. Then API servers answer later than any client waits, and tests fail without a fault of the product. Few tests
at a time use the processor as fully as many do, and each gets its answers sooner.

This plugin comes before `tests.machine_lock` in `tests/conftest.py`, so that its hook is the inner one: a test that
waits for those that must be alone takes no turn from them.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.sandbox_count import FEWEST
from tests.time_limit import latest_start

OVERLOADED = 6.0
"""How many threads for each core run or wait for it, on average over a minute, on a machine that is overloaded."""
MAX_WAIT = 900.0
"""How many seconds a test waits at most for others to end."""
POLL_SECONDS = 5.0
_FIRST_START = pytest.StashKey[ExitStack]()
"""Of this process, until its sandbox has started."""


@pytest.hookimpl(wrapper=True, tryfirst=True)  # outside pytest-timeout, so that waiting does not count
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    is_on_sandbox = item.config.getoption("sandbox") in ("only", "drills")
    has_neighbors = "PYTEST_XDIST_WORKER" in os.environ
    if item.config.cache is None or not is_on_sandbox or not has_neighbors:
        return (yield)
    folder = item.config.cache.mkdir("machine")
    with ExitStack() as start:
        if _FIRST_START not in item.config.stash:
            item.config.stash[_FIRST_START] = start
            start.enter_context(starting(folder))
        with turn(folder, _is_overloaded):
            return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    try:
        return (yield)
    finally:
        if fixturedef.argname == "sandbox" and _FIRST_START in request.config.stash:
            request.config.stash[_FIRST_START].close()


def _is_overloaded() -> bool:
    return os.getloadavg()[0] >= OVERLOADED * (os.cpu_count() or 1)


@contextmanager
def starting(folder: Path) -> Iterator[None]:
    """Start one sandbox at a time. All at once would be started before the first shows how much the machine can do."""
    with open(folder / "start", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def turn(folder: Path, is_overloaded: Callable[[], bool], poll_seconds: float = POLL_SECONDS) -> Iterator[None]:
    """Begin while fewer than `FEWEST` tests run, or if the machine is not overloaded.

    A test that must not begin any more, because the time of the run is over, does not wait either.
    """
    end = min(time.time() + MAX_WAIT, latest_start())
    while True:
        with _free_turn(folder) as is_free:
            if is_free or not is_overloaded() or time.time() > end:
                yield
                return
        time.sleep(poll_seconds)  # nothing reports that a load has fallen, or that one of several locks is free


@contextmanager
def _free_turn(folder: Path) -> Iterator[bool]:
    """Hold a turn that no other test has, and say whether there was one."""
    for number in range(FEWEST):
        with open(folder / f"turn-{number}", "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield True
            return
    yield False
