"""SET-15, SET-16, SET-17: what a worker makes of the CPU and memory of its container, and where its log goes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import ssl
import subprocess
import sys
import warnings
from asyncio import sslproto
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.workflows.waiting import until
from worker import main
from worker.runtime.concurrency import concurrency
from worker.runtime.health import Health
from worker.runtime.memory import PARENT, TLS_BUFFER, shrink_tls_buffers, watch_memory, worker_bytes
from worker.runtime.telemetry import logs
from worker.settings import Settings, SettingsError


@pytest.mark.parametrize(
    ("millicores", "activities", "tasks"),
    [(1000, 200, 30), (2000, 400, 60), (100, 50, 10), (64000, 1000, 200), (0, 200, 30)],
)
def test_set15_more_cpu_does_more_at_once_within_bounds(millicores: float, activities: int, tasks: int) -> None:
    result = concurrency(millicores)
    assert (result.activities, result.workflow_tasks) == (activities, tasks)


@pytest.mark.parametrize(("used", "events"), [(89, False), (90, True), (100, True)])
async def test_set16_at_nine_tenths_of_the_limit_garbage_is_collected_and_said(
    used: int, events: bool, caplog: pytest.LogCaptureFixture
) -> None:
    looks: list[int] = []

    def measured() -> int:
        looks.append(used)
        return used

    async def looked() -> bool:
        return len(looks) >= (3 if events else 2)

    with caplog.at_level(logging.WARNING):
        await _for_a_while(watch_memory(100, measured, period=0.001), looked)
    assert ("Memory is short" in caplog.text) is events


async def test_set16_without_a_limit_nothing_is_measured() -> None:
    looks: list[int] = []

    def measured() -> int:
        looks.append(1)
        return 0

    task = asyncio.create_task(watch_memory(-1, measured, period=0.0001))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert looks == []


@pytest.mark.integration
@pytest.mark.parametrize("part_of_a_worker", [True, False])
def test_set16_what_the_processes_of_a_worker_hold_is_counted_together(part_of_a_worker: bool) -> None:
    ballast = bytearray(b"x" * (256 * 2**20))
    environment = {**os.environ, PARENT: str(os.getpid() if part_of_a_worker else 0)}
    code = "from worker.runtime.memory import worker_bytes; print(worker_bytes())"
    counted = int(subprocess.check_output([sys.executable, "-c", code], env=environment))
    assert (counted > len(ballast)) is part_of_a_worker


def test_set16_in_a_container_the_parent_is_process_number_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for process in (1, 7, os.getpid()):
        (tmp_path / str(process)).mkdir()
        (tmp_path / str(process) / "statm").write_text("9000 1000 0\n")
    children = tmp_path / "1" / "task" / "1" / "children"
    children.parent.mkdir(parents=True)
    children.write_text(f"7 {os.getpid()} ")
    monkeypatch.setattr("worker.runtime.memory._PROC", tmp_path)
    monkeypatch.setattr("os.getppid", lambda: 1)
    alone = worker_bytes()
    monkeypatch.setenv(PARENT, "1")
    assert worker_bytes() == 3 * alone == 3000 * os.sysconf("SC_PAGE_SIZE")


def test_set16_a_child_knows_the_parent_that_started_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    events: list[dict[str, str]] = []

    def started(*_: object, env: dict[str, str], **__: object) -> object:
        events.append(env)
        return SimpleNamespace(pid=1)

    monkeypatch.setattr("subprocess.Popen", started)
    child = main._start("io", Settings(cluster_name="c").as_environment(), str(tmp_path), Health(["io"]), "")
    child.listener.join()
    assert events[0][PARENT] == str(os.getpid())


@pytest.mark.integration
def test_a_process_may_open_as_many_files_as_its_container_allows() -> None:
    """Some container runtimes begin with 1,024, of which each watch of a node that starts takes one."""
    code = (
        "import resource; from worker.runtime import process; "
        "resource.setrlimit(resource.RLIMIT_NOFILE, (300, 500)); process.allow_open_files(); "
        "print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["500", "500"]


async def test_tls_connections_have_a_small_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attribute is not documented, so a new version of Python may not read it any more."""
    monkeypatch.setattr(sslproto.SSLProtocol, "max_size", sslproto.SSLProtocol.max_size)
    shrink_tls_buffers()
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()
    protocol = sslproto.SSLProtocol(loop, asyncio.Protocol(), ssl.create_default_context(), waiter)
    assert len(protocol.get_buffer(-1)) == TLS_BUFFER


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    logger = logging.getLogger()
    before, level = logger.handlers[:], logger.level
    yield logger
    logging.captureWarnings(False)
    logger.handlers[:] = before
    logger.setLevel(level)


def lines_with(text: str, field: str, value: str) -> list[str]:
    """The lines of a log with this in a field. What another thread of the process logs meanwhile is not among them."""
    return [line for line in text.splitlines() if value in json.loads(line)[field]]


def test_set17_logs_go_to_every_path_that_is_named(
    root: logging.Logger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "worker.log"
    logs.set_up("io", Settings(cluster_name="c", log_output_paths=("stdout", str(file)), log_level="warn"))
    logging.getLogger("controller").warning("seen", extra={"nodepool": "p"})
    logging.getLogger("controller").info("not seen")
    (line,) = lines_with(file.read_text(), "logger", "controller")
    assert (
        json.loads(line).items()
        >= {"level": "WARN", "logger": "controller", "message": "seen", "nodepool": "p"}.items()
    )
    assert lines_with(capsys.readouterr().out, "logger", "controller") == [line]


def test_ops01_a_warning_of_python_or_a_library_is_a_line_like_any_other(root: logging.Logger, tmp_path: Path) -> None:
    file = tmp_path / "worker.log"
    logs.set_up("io", Settings(cluster_name="c", log_output_paths=(str(file),)))
    warnings.warn("cannot find activity to cancel", RuntimeWarning, stacklevel=1)
    (line,) = lines_with(file.read_text(), "message", "cannot find activity to cancel")
    assert json.loads(line)["logger"] == "py.warnings"


def test_set17_a_line_that_cannot_be_written_is_reported_to_the_error_output(
    root: logging.Logger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    faults = tmp_path / "faults.log"
    logs.set_up("io", Settings(cluster_name="c", log_error_output_paths=(str(faults),)))
    logging.getLogger("controller").warning("of %d nodes", "no")
    (line,) = faults.read_text().splitlines()
    assert json.loads(line)["message"].startswith("A line of controller was not logged: ")


def test_set17_a_path_that_cannot_be_written_is_one_sentence(root: logging.Logger, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as refused:
        logs.set_up("io", Settings(cluster_name="c", log_output_paths=(str(tmp_path / "none" / "worker.log"),)))
    assert str(refused.value).startswith("LOG_OUTPUT_PATHS names ")
    assert "\n" not in str(refused.value)


async def _for_a_while(work: Coroutine[Any, Any, None], condition: Callable[[], Awaitable[bool]]) -> None:
    task = asyncio.create_task(work)
    await until(condition)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
