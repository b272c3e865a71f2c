"""Says at the end of a run what it cost: the dearest test files and the CPU time in all.

Wall time depends on what else the machine does. CPU time does not, so it shows which files make a run slow. It counts
the test process and all processes that it started, also those that still run.
"""

from __future__ import annotations

import os
import resource
from collections import defaultdict
from collections.abc import Generator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

SHOWN = 20
COLLECTION, ELSE = "(collection)", "(fixtures that end with the run)"


class Costs:
    """CPU seconds for each test file of this process, and under xdist those of all processes."""

    def __init__(self) -> None:
        self.seconds = defaultdict[str, float](float)
        self._counted = 0.0

    def charge(self, name: str) -> None:
        """Charge what was used since the last call."""
        used = cpu_seconds()
        self.seconds[name] += max(0.0, used - self._counted)
        self._counted = max(used, self._counted)


def cpu_seconds() -> float:
    """What this process and all its descendants have used so far."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            seconds += sum(child.cpu_times()[:4])
    return seconds


def summary(seconds: Mapping[str, float], count: int = SHOWN) -> list[str]:
    """Name the dearest files, and all they cost."""
    dearest = sorted(seconds.items(), key=lambda cost: -cost[1])[:count]
    lines = [f"{used:8.1f}  {name}" for name, used in dearest]
    return [*lines, f"{sum(seconds.values()):8.1f}  CPU-seconds in all"]


# --- pytest ---

_COSTS = pytest.StashKey[Costs]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_COSTS] = Costs()


def pytest_collection_finish(session: pytest.Session) -> None:
    if not _distributes(session.config):
        session.config.stash[_COSTS].charge(COLLECTION)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    try:
        return (yield)
    finally:
        if nextitem is None or nextitem.path != item.path:
            item.config.stash[_COSTS].charge(str(item.path.relative_to(Path(item.config.rootpath))))


@pytest.hookimpl(trylast=True)  # after the fixtures of the session have ended
def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    if _distributes(config):
        return
    config.stash[_COSTS].charge(ELSE)
    if "PYTEST_XDIST_WORKER" in os.environ:
        config.workeroutput["costs"] = dict(config.stash[_COSTS].seconds)  # type: ignore[attr-defined]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add up what a process of xdist reports when it ends."""
    for name, used in getattr(node, "workeroutput", {}).get("costs", {}).items():
        node.config.stash[_COSTS].seconds[name] += used


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    seconds = config.stash[_COSTS].seconds
    files = [name for name in seconds if name.startswith("tests")]
    if len(files) > 1:
        terminalreporter.section(f"the {min(SHOWN, len(files))} dearest files, in CPU-seconds")
        for line in summary(seconds):
            terminalreporter.write_line(line)


def _distributes(config: pytest.Config) -> bool:
    """Whether this process only gives tests to others."""
    return bool(getattr(config.option, "dist", "no") != "no" and getattr(config.option, "tx", None))
