"""Tracing does no harm while the collector is away or slow."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from activities import loggers
from activities.tracing import spans
from activities.tracing.catalogue import Operation
from tests.otlp_receiver import OtlpReceiver
from tests.workflows.waiting import until
from worker.runtime.telemetry import tracing
from worker.settings.open_telemetry import ENDPOINT, TRACES_ENDPOINT

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    library = loggers.library(tracing.EXPORTER)
    handlers, propagate = list(library.handlers), library.propagate
    yield
    spans.enable(None)
    tracing.flush_spans(30)
    for thread in threading.enumerate():
        if thread.name == "last spans":
            thread.join(30)  # nothing of a test sends on after it
    tracing._providers.clear()
    library.handlers[:], library.propagate = handlers, propagate


def record_one() -> None:
    with spans.operation(
        Operation.START,
        "run/1",
        "launch instance",
        is_first=True,
        at=datetime(2026, 1, 1, tzinfo=UTC),
        root={},
        attributes={},
    ):
        pass


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_tracing_is_on_if_an_endpoint_is_set(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: bool
) -> None:
    for name in (ENDPOINT, TRACES_ENDPOINT, "OTEL_TRACES_EXPORTER", "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert tracing.tracing_wanted() is expected


def test_the_sampler_of_the_environment_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "10")  # a busy machine may take a second to send spans
    with OtlpReceiver().serving() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint)
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
        monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0")
        assert tracing.set_up_tracing("io", "orders")
        record_one()
        tracing.flush_spans(30)
        assert receiver.spans() == []
        tracing._providers.clear()
        monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "1")
        tracing.set_up_tracing("io", "orders")
        record_one()
        tracing.flush_spans(30)
        assert {span.name for span in receiver.spans()} == {Operation.START, "launch instance"}
        assert {span.resource["k8s.cluster.name"] for span in receiver.spans()} == {"orders"}


async def test_a_collector_that_is_away_is_reported_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The library says it for each attempt of each batch."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = closed.getsockname()[1]
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{address}")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "10")  # within a second, the library may not try again
    tracing.set_up_tracing("io", "orders")
    attempts: list[str] = []

    class Counting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            attempts.append(record.getMessage())

    loggers.library(tracing.EXPORTER).addHandler(Counting(logging.WARNING))
    record_one()

    async def repeated() -> bool:
        return len(attempts) > 1

    await until(repeated)
    (line,) = [record for record in caplog.records if record.name == loggers.TRACING.name]
    assert line.getMessage() == "The worker failed to send spans, and goes on without them"
    assert str(address) in vars(line)["error"]


def test_a_collector_that_does_not_answer_holds_up_no_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "10")
        tracing.set_up_tracing("io", "orders")
        record_one()
        tracing.flush_spans(0.1)
        assert "last spans" in {thread.name for thread in threading.enumerate()}  # it would have waited on
