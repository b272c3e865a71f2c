"""One sandbox for all tests of a session: a real cluster, a real Temporal, and an EC2 that boots quickly.

When pytest-xdist runs tests in several processes, each is a session with a sandbox and ports of its own. Tests on a
sandbox wait more than they compute, and the others only compute. So `make test` runs them apart, with other numbers of
processes: ``--sandbox none`` takes the files that need no sandbox, ``--sandbox only`` the others without drills, and
``--sandbox drills`` the drills, which `make drills` runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.cluster import Sandbox
from sandbox.kubelet.machine import unable
from sandbox.ports import OWN_RANGE, port_range
from sandbox.status import State
from tests.image.container import stale
from tests.preloaded_command import PreloadedCommand
from tests.preloaded_worker import PreloadedWorker

BOOT_SECONDS = 1.0
GO_PROCESSORS = "1"
"""Processors that each program of the control plane uses at the same time, unless GOMAXPROCS says how many. Several
sandboxes share few cores, so more make no test faster, and waking threads takes a twelfth of the programs' processor
time.
"""
TESTS = Path(__file__).parent
ON_SANDBOX = (
    "tenon/apis/verdicts",
    "deploy/test_chart.py",
    "deploy/test_chart_crd.py",
    "e2e",
    "sandbox/ec2/test_named_faults.py",
    "faults",
    "activities/provisioning/test_on_api_server.py",
    "postgresql",
    "realpod",
    "sandbox/test_controlplane.py",
    "sandbox/test_real_faults.py",
    "shadow",
    "worker/webhook/test_two_versions.py",
)
"""Files, and folders of files, whose tests may use the fixture `sandbox`. The fixture refuses the others."""
DRILLS = (
    "faults/drills",
    "e2e/test_reboots_for_repair.py",
    "e2e/test_working_hours.py",
    "shadow/test_beside_karpenter.py",
)
"""Files, and folders of files, whose tests are drills."""
NARROWED = ("keyword", "markexpr", "ignore", "ignore_glob", "deselect", "lf", "last_failed", "stepwise", "fuzz", "unit")
"""Options with which a run is not the whole suite."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pods", action="store_true", help="run the worker of tests/e2e in real pods: docs/real-pods.md")
    parser.addoption(
        "--sandbox",
        choices=("none", "only", "drills"),
        help="only the files whose tests need no sandbox, only those that do and are no drills, or only drills",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("pods") and (reason := unable() or stale()):
        raise pytest.UsageError(reason)
    process = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    if process:
        whole = port_range()
        item = len(whole) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        first = whole.start + int(process) * item
        os.environ[OWN_RANGE] = f"{first}-{first + item - 1}"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files by ``--sandbox`` before they are imported."""
    choice = config.getoption("sandbox")
    if choice is None or not collection_path.name.startswith("test_"):
        return None
    kind = "drills" if is_drill(collection_path) else "only" if needs_sandbox(collection_path) else "none"
    return True if kind != choice else None


def is_drill(file: Path) -> bool:
    """Whether the tests of this file are drills."""
    return any(file.is_relative_to(TESTS / name) for name in DRILLS)


def needs_sandbox(file: Path) -> bool:
    """Whether tests of this file may use a sandbox."""
    return any(file.is_relative_to(TESTS / name) for name in ON_SANDBOX)


def whole_suite(config: pytest.Config, *, both_runs: bool) -> bool:
    """Whether the run has every test but drills, together with the run without sandboxes if ``both_runs``."""
    narrowed = any(getattr(config.option, name, None) for name in NARROWED)
    choice = config.getoption("sandbox")
    complete = choice is None or (choice == "only" and both_runs)
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS and complete and not narrowed


@pytest.fixture(scope="session")
def sandbox(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """The session's sandbox; a component that died meanwhile is a fault of the run."""
    report = request.getfixturevalue("report_shared_fault")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("GOMAXPROCS", os.environ.get("GOMAXPROCS", GO_PROCESSORS))
        running = Sandbox.start(
            tmp_path_factory.mktemp("sandbox"),
            boot_delay=BOOT_SECONDS,
            kubelet=request.config.getoption("pods"),
            on_progress=print,
        )
    yield running
    status = running.status()
    running.stop()
    if status.state is not State.READY:
        report(f"The sandbox was not ready at the end: {status.message}")


@pytest.fixture(scope="session")
def preloaded_command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PreloadedCommand]:
    """Runs ``tenon`` without loading its modules each time."""
    command = PreloadedCommand(tmp_path_factory.mktemp("tenon"))
    yield command
    command.close()


@pytest.fixture(scope="session")
def preloaded_worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PreloadedWorker]:
    """Starts workers without loading their modules each time."""
    worker = PreloadedWorker(tmp_path_factory.mktemp("workers"))
    yield worker
    worker.close()


@pytest.fixture(autouse=True)
def _only_where_a_sandbox_is_expected(request: pytest.FixtureRequest) -> None:
    """Refuse a test that uses a sandbox in a file that runs where none is expected."""
    if "sandbox" in request.fixturenames and not needs_sandbox(request.path):
        pytest.fail(f"name {request.path.relative_to(TESTS)} in ON_SANDBOX of tests/sandbox_fixture.py")
