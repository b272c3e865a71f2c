"""What is said of a service that is away, where and how often."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ConflictError
from tests.activities.kubernetes.fake_api import serve
from tests.worker.background import in_background
from tests.worker.dev_server import Connected
from tests.workflows.waiting import until
from worker.log_rate_limit import ActivityFailureFilter, LogRateLimiter
from worker.runtime.outage import Outage, watch_api_server
from worker.runtime.process import Readiness
from worker.runtime.temporal.temporal_client import CoreLines, readable, watch_temporal

LOG = logging.getLogger("tests.outages")


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_an_outage_is_logged_at_once_then_once_a_minute_then_its_end(caplog: pytest.LogCaptureFixture) -> None:
    """However often it is looked at, and however long each look takes."""
    caplog.set_level("INFO", LOG.name)
    clock = Clock()
    noon = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
    outage = Outage("EC2", "nothing is launched", LOG, clock=clock, now=lambda: noon)
    outage.note("")
    assert (outage(), caplog.records) == ("", [])
    for _ in range(31):  # five minutes, a look every ten seconds
        outage.note("refused")
        clock.now += 10
    assert outage() == "EC2 has not answered since 2026-01-01 12:00:00 UTC (refused)"
    outage.note("")
    assert outage() == ""
    records = [record.getMessage() for record in caplog.records]
    assert records == [*["A service does not answer"] * 6, "A service answers again"]
    away = {
        "service": "EC2",
        "since": "2026-01-01 12:00:00 UTC",
        "error": "refused",
        "consequence": "nothing is launched",
    }
    assert all(away.items() <= vars(record).items() for record in caplog.records[:6])
    assert {"service": "EC2", "outage-seconds": 310}.items() <= vars(caplog.records[6]).items()


@pytest.mark.parametrize("pause", [7.0, 20.0, 45.0])
def test_a_slow_pass_does_not_stretch_the_minute(pause: float, caplog: pytest.LogCaptureFixture) -> None:
    """A look at a hanging server takes as long as the pause between two."""
    clock = Clock()
    outage = Outage("EC2", "nothing is launched", LOG, clock=clock)
    for _ in range(int(600 / pause)):
        outage.note("no answer")
        clock.now += pause
    assert 600 / (60 + pause) - 1 <= len(caplog.records) <= 11


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (RPCError("tcp connect error", RPCStatusCode.UNAVAILABLE, b""), "the connection failed"),
        (RPCError("", RPCStatusCode.UNKNOWN, b""), "RPCError"),
        (RPCError("Namespace x is not found.", RPCStatusCode.NOT_FOUND, b""), "Namespace x is not found"),
        (TimeoutError(), "no answer in time"),
        (
            RuntimeError(
                "Failed client connect: Server connection error: tonic::transport::Error(Transport, ConnectError("
                'ConnectError("tcp connect error", 127.0.0.1:1, Os { code: 111, kind: ConnectionRefused, '
                'message: "Connection refused" })))'
            ),
            "Connection refused",
        ),
        (
            RuntimeError(
                'tonic::transport::Error(Transport, ConnectError(ConnectError("dns error", Custom { '
                'kind: Uncategorized, error: "failed to lookup address information: Name or service not known" })))'
            ),
            "failed to lookup address information: Name or service not known",
        ),
    ],
)
def test_operators_read_what_is_wrong_and_not_through_which_library(error: Exception, text: str) -> None:
    assert readable(error) == text


class ApiServer:
    """Answers /readyz with a status; 0 breaks the connection."""

    def __init__(self) -> None:
        self.status = 200

    async def handle(self, request: web.Request) -> web.StreamResponse:
        assert request.path == "/readyz"
        if self.status == 0 and request.transport is not None:
            request.transport.abort()
        return web.Response(status=self.status or 500, text="[+]ping ok\n[-]etcd failed: reason withheld")


@contextlib.asynccontextmanager
async def watched(tmp_path: Path) -> AsyncIterator[tuple[ApiServer, Readiness, Kube]]:
    server, readiness = ApiServer(), Readiness()
    readiness.why = ""
    async with (
        serve(server.handle, tmp_path) as kube,
        in_background(watch_api_server(kube, readiness, period=0.1)),  # also the time for an answer
    ):
        yield server, readiness, kube


@pytest.mark.integration
@pytest.mark.parametrize("status", [0, 500, 503])
async def test_an_api_server_that_is_away_makes_a_worker_unready_and_its_return_ready(
    status: int, tmp_path: Path
) -> None:
    async with watched(tmp_path) as (server, readiness, kube):
        server.status = status
        await until(lambda: _true(readiness() != ""))
        assert readiness().startswith(f"The Kubernetes API server at {kube.host} has not answered since ")
        assert "\n" not in readiness()
        server.status = 200
        await until(lambda: _true(readiness() == ""))


@pytest.mark.integration
@pytest.mark.parametrize("status", [401, 403, 404, 429])
async def test_an_api_server_that_refuses_the_question_is_there(status: int, tmp_path: Path) -> None:
    """Hardened clusters show /readyz to nobody."""
    async with watched(tmp_path) as (server, readiness, _):
        server.status = 503
        await until(lambda: _true(readiness() != ""))
        server.status = status
        await until(lambda: _true(readiness() == ""))


async def _true(condition: bool) -> bool:
    return condition


def record(activity: str, error: Exception | None) -> logging.LogRecord:
    log_record = logging.LogRecord("temporalio.activity", logging.WARNING, "", 0, "failed", (), _raised(error))
    log_record.temporal_activity = {"activity_type": activity}
    return log_record


def _raised(error: Exception | None) -> Any:
    if error is None:
        return None
    try:
        raise error
    except Exception:
        return sys.exc_info()


def test_with_ec2_away_each_action_is_logged_once_a_minute() -> None:
    """Two hundred launches that retry every few seconds would hide everything else."""
    clock = Clock()
    once = ActivityFailureFilter(clock)
    throttled, away = ApplicationError("x", type="Throttled"), ApplicationError("y", type="Unavailable")
    passed = [once.filter(record("launch", away)) for _ in range(200)]
    assert passed == [True] + [False] * 199
    assert once.filter(record("launch", throttled)), "another error is news"
    assert once.filter(record("terminate", away)), "another action is news"
    assert once.filter(record("launch", None)), "what is no failure is not held back"
    clock.now += 60
    again = record("launch", away)
    assert once.filter(again)
    assert vars(again)["withheld"] == 199


def test_what_says_all_in_a_sentence_is_logged_without_a_traceback() -> None:
    """Two who write one object: the one that came second tries again, and nobody need look at a stack."""
    conflict = record("release node", ConflictError(409, "Conflict", "the object has been modified"))
    assert ActivityFailureFilter(Clock()).filter(conflict)
    assert conflict.exc_info is None
    assert "the object has been modified" in vars(conflict)["error"]
    fault = record("release node", ValueError("a fault of ours"))
    assert ActivityFailureFilter(Clock()).filter(fault)
    assert fault.exc_info is not None


def test_the_same_line_of_temporals_core_is_logged_once_a_minute() -> None:
    clock = Clock()
    lines = CoreLines(LogRateLimiter(clock).count)

    def line(text: str) -> logging.LogRecord:
        log_record = logging.LogRecord("temporalio.core", logging.WARNING, "", 0, text, (), None)
        log_record.temporal_log = object()
        return log_record

    passed = [lines.filter(line(f"poll retried {number} times")) for number in range(30)]
    assert passed == [True] + [False] * 29
    other = line("the server is overloaded")
    assert lines.filter(other)
    assert "temporal_log" not in vars(other), "it cannot be written as JSON"
    clock.now += 60
    assert lines.filter(line("poll retried 31 times"))


def test_things_that_are_long_quiet_are_forgotten() -> None:
    """A name for every node that ever failed would fill the memory."""
    clock = Clock()
    log_limiter = LogRateLimiter(clock)
    for number in range(1000):
        assert log_limiter.count(number) == 0
        clock.now += 1
    assert len(log_limiter._last_lines) < 200


class FlakyTemporal:
    """The edge of a Temporal client whose first question is lost with its connection."""

    def __init__(self) -> None:
        self.service_client = self.workflow_service = self
        self.namespace = "default"
        self.config = SimpleNamespace(target_host="temporal:7233")
        self.requests = 0

    async def check_health(self) -> bool:
        self.requests += 1
        if self.requests == 1:
            raise RPCError("operation was canceled", RPCStatusCode.CANCELLED, b"")
        return True

    async def describe_namespace(self, _: object) -> None:
        """Read the database."""


async def test_one_lost_question_is_no_outage(caplog: pytest.LogCaptureFixture) -> None:
    """Temporal's frontend ends connections that have grown old; the process must not turn unready for it."""
    temporal, readiness = FlakyTemporal(), Readiness()
    readiness.why = ""
    watching = asyncio.create_task(watch_temporal(Connected(cast("Client", temporal)), readiness, period=0.01))

    async def asked_often() -> bool:
        return temporal.requests >= 4

    await until(asked_often)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert readiness() == ""
    assert [record for record in caplog.records if record.levelname == "WARNING"] == []
