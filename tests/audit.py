"""Judges a whole test run at its end: faults of shared parts, which no single test can be blamed for.

The tests of a process share a sandbox and a worker. When EC2 refuses the worker a call, a kubelet refuses a pod or a
shared worker ends badly, the test that happens to run at that moment did not cause it. So tests never fail for these.
Each process records them with their times, and when each test ran. The controller judges the records, names the tests
that ran at that moment, and fails the run.

`make test` runs pytest twice, with and without sandboxes, and names one folder for the records of both in
`TENON_TEST_RECORDS`. The second run then knows which AWS rights the whole suite used.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from sandbox.ec2.authorization.judge import RECORD, shipped_policy
from tests.rights import UNUSED, Refusal, policy_faults
from tests.sandbox_fixture import whole_suite
from tests.time_limit import UNTIL

RECORDS = "TENON_TEST_RECORDS"
"""Names the folder of the records of all pytest runs of one `make test`."""
STILL_EXPECTED_SECONDS = 5.0
"""How long after a test that wants refusals the worker may still make such calls."""

Report: TypeAlias = Callable[..., None]
"""``report(sentence, at=seconds)``: a fault of a part that tests share, and when it happened; now by default."""

FAULTS = pytest.StashKey[list[str]]()
_PROCESS = pytest.StashKey["ProcessRecord"]()
_FOLDER = pytest.StashKey[Path]()


@dataclass(frozen=True)
class Ran:
    """When a test ran, in seconds since the epoch, and the AWS actions that its marker ``refuses`` names."""

    test: str
    began: float
    ended: float
    refuses: tuple[str, ...] = ()


@dataclass(frozen=True)
class SharedFault:
    """A fault of a shared part, and when it happened, in seconds since the epoch."""

    sentence: str
    at: float


@dataclass(frozen=True)
class ProcessRecord:
    """What one test process writes: a file for each kind of entry."""

    folder: Path
    process: str

    @property
    def rights(self) -> Path:
        """The file to which each EC2 server of the process appends what callers use and what it refuses."""
        return self.folder / f"{self.process}.rights.jsonl"

    def ran(self, test: Ran) -> None:
        """Record when a test ran."""
        self._append("tests", test.__dict__)

    def report(self, sentence: str, *, at: float | None = None) -> None:
        """Record a fault of a shared part."""
        self._append("faults", {"sentence": sentence, "at": time.time() if at is None else at})

    def _append(self, kind: str, entry: dict[str, Any]) -> None:
        with (self.folder / f"{self.process}.{kind}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")


@dataclass
class RunRecord:
    """What one test process recorded."""

    tests: list[Ran] = field(default_factory=list)
    faults: list[SharedFault] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    refused: list[Refusal] = field(default_factory=list)


def read(folder: Path) -> list[RunRecord]:
    """Read the records of all processes in a folder."""
    processes = sorted({file.name.split(".")[0] for file in folder.glob("*.jsonl")})
    return [_read_process(folder, process) for process in processes]


def shared_faults(run: RunRecord) -> list[str]:
    """Say what went wrong in a process's shared parts, when, and which tests ran then."""
    faults = [
        *run.faults,
        *(
            SharedFault(f"The policy refused a call of the worker: {refusal.message}", refusal.at)
            for refusal in run.refused
            if not _is_wanted(refusal, run.tests)
        ),
    ]
    first = {fault.sentence: fault for fault in sorted(faults, key=lambda fault: -fault.at)}
    return [_sentence(fault, run.tests) for fault in sorted(first.values(), key=lambda fault: fault.at)]


def _is_wanted(refusal: Refusal, tests: Iterable[Ran]) -> bool:
    return refusal.expected or any(
        refusal.action in test.refuses and test.began <= refusal.at <= test.ended + STILL_EXPECTED_SECONDS
        for test in tests
    )


def _sentence(fault: SharedFault, tests: Iterable[Ran]) -> str:
    running = [test.test for test in tests if test.began <= fault.at <= test.ended]
    before = max((test for test in tests if test.ended < fault.at), key=lambda test: test.ended, default=None)
    when = datetime.fromtimestamp(fault.at, UTC).strftime("%H:%M:%S")
    during = f"running then: {running[0]}" if running else f"after: {before.test}" if before else "before any test"
    return f"{when} {fault.sentence} ({during})"


def _read_process(folder: Path, process: str) -> RunRecord:
    def entries(kind: str) -> list[dict[str, Any]]:
        file = folder / f"{process}.{kind}.jsonl"
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []

    rights = entries("rights")
    return RunRecord(
        tests=[
            Ran(entry["test"], entry["began"], entry["ended"], tuple(entry["refuses"])) for entry in entries("tests")
        ],
        faults=[SharedFault(entry["sentence"], entry["at"]) for entry in entries("faults")],
        used={entry["used"] for entry in rights if "used" in entry},
        refused=[
            Refusal(entry["refused"], entry["message"], entry["at"], expected=entry["expected"])
            for entry in rights
            if "refused" in entry
        ],
    )


# --- pytest ---


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "refuses(*actions): a worker is refused these AWS actions during the test")
    process = os.environ.get("PYTEST_XDIST_WORKER", "")
    if not process:
        folder = Path(os.environ.get(RECORDS) or tempfile.mkdtemp(prefix="tenon-test-records-"))
        folder.mkdir(parents=True, exist_ok=True)
        config.stash[_FOLDER] = folder
        os.environ[RECORD] = str(folder / "main.rights.jsonl")  # the processes of this run inherit it
    folder = Path(os.environ[RECORD]).parent
    tier = config.getoption("sandbox") or "all"
    record = ProcessRecord(folder, f"{tier}-{process or 'main'}")
    os.environ[RECORD] = str(record.rights)
    config.stash[_PROCESS] = record


@pytest.fixture(scope="session")
def report_shared_fault(request: pytest.FixtureRequest) -> Report:
    """Reports a fault of a part that tests share, which fails the run and no test."""
    return request.config.stash[_PROCESS].report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    began = time.time()
    try:
        return (yield)
    finally:
        refuses = tuple(str(action) for marker in item.iter_markers("refuses") for action in marker.args)
        item.config.stash[_PROCESS].ran(Ran(item.nodeid, began, time.time(), refuses))


@pytest.hookimpl(trylast=True)  # after the fixtures of the session have ended
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ or session.config.option.collectonly:
        return
    folder = session.config.stash[_FOLDER]
    runs = read(folder)
    in_time = time.time() < float(os.environ.get(UNTIL) or "inf")
    whole = (
        whole_suite(session.config, both_runs=RECORDS in os.environ) and exitstatus == pytest.ExitCode.OK and in_time
    )
    used = set[str]().union(*(run.used for run in runs))
    faults = [sentence for run in runs for sentence in shared_faults(run)]
    faults += policy_faults(used, shipped_policy("sandbox", "us-west-2").granted, UNUSED, whole=whole)
    session.config.stash[FAULTS] = faults
    if RECORDS not in os.environ:
        shutil.rmtree(folder, ignore_errors=True)
    if faults and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    faults = config.stash.get(FAULTS, [])
    if faults:
        terminalreporter.section("faults of shared parts", red=True)
    for fault in faults:
        terminalreporter.write_line(fault, red=True)
