"""Checks the worker's AWS rights over a whole test run: nothing is refused, and nothing is granted in vain.

Every EC2 server of the sandbox judges its callers and appends what they use, and what it refuses, to a file of the test
process. A test fails if a worker was refused a call that no test wants refused: a test that does has the marker
``refuses`` with the actions, or replaces the worker's policy. A run of the whole suite fails if the policy grants an
action that no test used and `UNUSED` does not name, and any run fails if one that `UNUSED` names was used.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import pytest

from sandbox.ec2.authorization.judge import RECORD, shipped_policy
from tests.unused_rights import UNUSED

SEEN = pytest.StashKey[int]()
"""How much of the record earlier tests have accounted for."""
NARROWED = ("keyword", "markexpr", "ignore", "ignore_glob", "deselect", "lf", "last_failed", "stepwise", "fuzz")
"""Options with which a run is not the whole suite."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "refuses(*actions): a worker is refused these AWS actions during the test")
    process = os.environ.get("PYTEST_XDIST_WORKER", "")
    given = os.environ.get(RECORD)
    folder = Path(given).parent if process and given else Path(tempfile.mkdtemp(prefix="tenon-rights-"))
    os.environ[RECORD] = str(folder / f"{process or 'main'}.jsonl")
    config.stash[SEEN] = 0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    yield
    record = Path(os.environ[RECORD])
    if not record.exists() or record.stat().st_size == item.config.stash[SEEN]:
        return
    with record.open(encoding="utf-8") as file:
        file.seek(item.config.stash[SEEN])
        entries = [json.loads(line) for line in file.readlines()]
        item.config.stash[SEEN] = file.tell()
    wanted = {action for marker in item.iter_markers("refuses") for action in marker.args}
    surprising = unexpected(entries, wanted)
    assert not surprising, "The policy refused calls of the worker:\n" + "\n".join(surprising)


def unexpected(entries: Iterable[dict[str, Any]], wanted: Iterable[str]) -> list[str]:
    """The refusals in a record that nobody asked for."""
    allowed = set(wanted)
    refusals = [one for one in entries if "refused" in one and not one["expected"] and one["refused"] not in allowed]
    return list(dict.fromkeys(one["message"] for one in refusals))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ or session.config.option.collectonly:
        return
    whole = is_whole(session.config) and exitstatus == pytest.ExitCode.OK
    granted = shipped_policy("sandbox", "us-west-2").granted
    folder = Path(os.environ[RECORD]).parent
    session.config.stash[FAULTS] = faults(used(folder), granted, UNUSED, whole=whole)
    shutil.rmtree(folder, ignore_errors=True)
    if session.config.stash[FAULTS] and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


FAULTS = pytest.StashKey[list[str]]()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    for fault in config.stash.get(FAULTS, []):
        terminalreporter.write_line(fault, red=True)


def is_whole(config: pytest.Config) -> bool:
    """Whether the run has every test."""
    narrowed = any(getattr(config.option, name, None) for name in NARROWED)
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS and not narrowed


def used(folder: Path) -> set[str]:
    """The actions that workers used in any process of the run."""
    entries = [json.loads(line) for file in folder.glob("*.jsonl") for line in file.read_text().splitlines()]
    return {one["used"] for one in entries if "used" in one}


def faults(found: set[str], granted: Iterable[str], unused: Iterable[str], *, whole: bool) -> list[str]:
    """What is wrong with the policy, or with the list of unused actions, in a sentence each."""
    listed = set(unused)
    stale = [f"{action} is used now: remove it from tests/unused_rights.py" for action in sorted(listed & found)]
    if not whole:
        return stale
    vain = sorted(set(granted) - found - listed)
    return [*stale, *(f"The policy grants {action}, which no test used: take it out or name it" for action in vain)]
