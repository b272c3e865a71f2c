"""Health of a worker: what its children report, and what the probes answer."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from worker.runtime import health as health_module
from worker.runtime.child_processes import REPORT_FD, report_failure, report_health
from worker.runtime.health import LATE_LIMIT, SILENCE_LIMIT, DualStackServer, Health, serve_metrics, serve_probes

pytestmark = pytest.mark.integration


def says(health: Health, name: str, why: str = "") -> None:
    """A child reports; an empty reason means ready."""
    health.listen(name, io.StringIO(json.dumps({"ready": not why, "why": why}) + "\n"))


def test_a_worker_is_not_ready_before_every_child_is() -> None:
    health = Health(["cluster", "io"])
    assert health.ready() == (False, "cluster: starting; io: starting")
    says(health, "io")
    says(health, "cluster", "waiting for NodePools")
    assert health.ready() == (False, "cluster: waiting for NodePools")
    says(health, "cluster")
    assert health.ready() == (True, "ok")


def test_a_child_that_becomes_unready_makes_the_worker_unready_not_dead() -> None:
    """A Temporal outage must not make Kubernetes restart the worker in circles."""
    health = Health(["cluster"])
    says(health, "cluster")
    says(health, "cluster", "Temporal does not answer")
    assert health.ready() == (False, "cluster: Temporal does not answer")
    assert health.live() == (True, "ok")


@pytest.fixture
def _stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """No time passes but what `later` adds, however long the machine takes."""
    now = time.monotonic()
    monkeypatch.setattr(health_module, "ChildHealth", partial(health_module.ChildHealth, heard_at=now))
    monkeypatch.setattr(time, "monotonic", lambda: now)


@pytest.mark.usefixtures("_stopped_clock")
def test_a_child_that_falls_silent_makes_the_worker_dead() -> None:
    """An event loop that hangs says nothing: only a restart helps."""
    health = Health(["cluster", "io"])
    says(health, "cluster")
    says(health, "io")
    with later(SILENCE_LIMIT - 1):
        assert health.live()[0]
    with later(SILENCE_LIMIT + 1):
        assert health.live() == (False, "silent: cluster, io")


@pytest.mark.usefixtures("_stopped_clock")
def test_a_child_whose_event_loop_is_late_makes_the_worker_unready() -> None:
    """Long before it counts as dead: a leader that says nothing for 10 s has lost its Lease."""
    health = Health(["cluster", "io"])
    says(health, "cluster")
    says(health, "io", "starting")
    with later(LATE_LIMIT - 1):
        assert health.ready() == (False, "io: starting")
    with later(LATE_LIMIT + 1):
        assert health.ready() == (False, "cluster: its event loop is 11 s late; io: starting")


def test_children_that_fail_for_the_same_reason_are_heard_once() -> None:
    """Two processes, one Temporal that is away: one sentence. Their last word changes nothing of the verdicts."""
    health = Health(["cluster", "io"])
    for name, why in (("cluster", "Temporal is away"), ("io", "Temporal is away"), ("io", "EC2 is away")):
        health.listen(name, io.StringIO(json.dumps({"failed": why}) + "\n"))
    assert health.failures() == ["Temporal is away", "EC2 is away"]
    assert health.ready() == (False, "cluster: starting; io: starting")


def test_a_child_without_a_parent_must_report_failures_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(REPORT_FD, raising=False)
    assert not report_failure("why")
    reading, writing = os.pipe()
    monkeypatch.setenv(REPORT_FD, str(writing))
    assert report_failure("why")
    assert json.loads(os.read(reading, 1000)) == {"failed": "why"}
    os.close(reading)
    assert not report_failure("why")
    os.close(writing)


@contextmanager
def later(seconds: float) -> Iterator[None]:
    """The verdicts as they would be after so many seconds."""
    real = time.monotonic
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: real() + seconds)
        yield


def asked(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [("/healthz", 200, "ok\n"), ("/readyz", 503, "cluster: no Lease\n"), ("/secrets", 404, "not found\n")],
)
def test_probes_answer_with_the_reason(path: str, status: int, text: str) -> None:
    health = Health(["cluster", "io"])
    says(health, "io")
    says(health, "cluster", "no Lease")
    server = serve_probes(health, 0)
    try:
        assert asked(server.server_address[1], path) == (status, text)
    finally:
        server.shutdown()
        server.server_close()


def test_probes_turn_with_the_verdicts() -> None:
    health = Health(["cluster"])
    server = serve_probes(health, 0)
    port = server.server_address[1]
    try:
        assert asked(port, "/readyz") == (503, "cluster: starting\n")
        says(health, "cluster")
        assert asked(port, "/readyz") == (200, "ok\n")
        with later(SILENCE_LIMIT + 1):
            assert asked(port, "/healthz") == (503, "silent: cluster\n")
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def probed() -> Iterator[int]:
    """The port of probes of a worker whose only child is ready."""
    health = Health(["io"])
    says(health, "io")
    server = serve_probes(health, 0)
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def test_silent_connections_make_room_for_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes a thread, and any pod may connect. The oldest goes first, and the kubelet always gets its answer."""
    monkeypatch.setattr(health_module, "MAX_CONNECTIONS", 4)
    with probed() as port, contextlib.ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5)) for _ in range(12)]
        assert asked(port, "/readyz") == (200, "ok\n")
        assert silent[0].recv(1) == b""
        silent[-1].sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert silent[-1].recv(12) == b"HTTP/1.0 200"


def test_a_connection_that_stays_silent_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here after a thousandth of the time."""
    limit = health_module._Quiet.timeout
    monkeypatch.setattr(health_module._Quiet, "timeout", limit and limit / 1000)
    with probed() as port, socket.create_connection(("127.0.0.1", port), timeout=5) as silent:
        silent.sendall(b"GET /healthz")
        assert silent.recv(1) == b""


def test_metrics_are_served_before_any_child_wrote_one(tmp_path: os.PathLike[str]) -> None:
    """Prometheus may scrape a worker that has just begun."""
    server = serve_metrics(os.fspath(tmp_path), 0)
    try:
        assert asked(server.server_address[1], "/metrics")[0] == 200
        assert asked(server.server_address[1], "/")[0] == 404
    finally:
        server.shutdown()
        server.server_close()


def test_scrapes_are_answered_one_at_a_time_and_not_for_clients_that_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine, Prometheus gives scrapes up and sends others. Each costs processor time that those lack."""
    begun, may_end = threading.Semaphore(0), threading.Event()

    def slow_text(_addresses: object) -> bytes:
        begun.release()
        assert may_end.wait(60)
        return b""

    monkeypatch.setattr(health_module, "temporal_text", slow_text)
    server = cast("DualStackServer", serve_metrics(os.fspath(tmp_path), 0))
    port = server.server_address[1]
    try:
        with ThreadPoolExecutor() as pool, contextlib.ExitStack() as stack:
            first = pool.submit(asked, port, "/metrics")
            assert begun.acquire(timeout=60)
            for _ in range(5):
                with socket.create_connection(("127.0.0.1", port), timeout=60) as leaving:
                    leaving.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            stack.callback(may_end.set)
            last = pool.submit(asked, port, "/metrics")
            may_end.set()
            assert (first.result()[0], last.result()[0]) == (200, 200)
            assert begun.acquire(timeout=60)
        with server._ended:
            assert server._ended.wait_for(lambda: not server._open, 60)
    finally:
        server.shutdown()
        server.server_close()
    assert not begun.acquire(blocking=False)


def test_a_client_that_does_not_read_its_scrape_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any pod of the cluster may connect."""
    sizes = iter([50_000_000, 10])  # the first answer fills all buffers of a connection
    begun = threading.Event()

    def text(_addresses: object) -> bytes:
        begun.set()
        return b"#" * next(sizes) + b"\n"

    monkeypatch.setattr(health_module, "temporal_text", text)
    monkeypatch.setattr(health_module._Quiet, "timeout", None)
    server = serve_metrics(os.fspath(tmp_path), 0)
    port = server.server_address[1]
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as stalled:
            stalled.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert begun.wait(60)
            assert asked(port, "/metrics")[0] == 200
    finally:
        server.shutdown()
        server.server_close()


def test_only_the_error_of_a_client_that_stays_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = serve_metrics(os.fspath(tmp_path), 0)
    try:
        for error in (BrokenPipeError(), ConnectionResetError(), ValueError("unknown")):
            try:
                raise error
            except type(error):
                server.handle_error(None, ("127.0.0.1", 1))  # type: ignore[arg-type]
    finally:
        server.shutdown()
        server.server_close()
    text = capsys.readouterr().err
    assert "ValueError: unknown" in text
    assert "BrokenPipeError" not in text
    assert "ConnectionResetError" not in text


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
async def test_a_child_reports_its_reason_until_its_parent_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child without a parent must not die of a broken pipe."""
    reading, writing = os.pipe()
    monkeypatch.setenv(REPORT_FD, str(writing))
    reasons = ["caches", ""]
    health = Health(["cluster"])
    task = asyncio.create_task(report_health(lambda: reasons[0]))
    await asyncio.sleep(0)
    health.listen("cluster", io.StringIO(os.read(reading, 1000).decode()))
    assert health.ready() == (False, "cluster: caches")
    del reasons[0]
    await asyncio.sleep(3)
    health.listen("cluster", io.StringIO(os.read(reading, 1000).decode()))
    assert health.ready() == (True, "ok")
    os.close(reading)
    await asyncio.wait_for(task, 10)
    os.close(writing)


async def test_without_a_parent_nothing_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(REPORT_FD, raising=False)
    await report_health(lambda: "never asked")


def test_probes_and_metrics_are_reached_by_ipv6_too(tmp_path: Path) -> None:
    """The kubelet of an IPv6 cluster has no other way: a worker that it does not reach is restarted for ever."""
    probes = serve_probes(Health(["io"]), 0)
    metrics = serve_metrics(str(tmp_path), 0)
    try:
        for server in (probes, metrics):
            for address in ("::1", "127.0.0.1"):
                socket.create_connection((address, server.server_address[1]), timeout=5).close()
    finally:
        for server in (probes, metrics):
            server.shutdown()
            server.server_close()
