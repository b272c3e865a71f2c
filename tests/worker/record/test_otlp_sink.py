"""The record as OpenTelemetry log records, sent to a real receiver on loopback."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from tenon.record.lines import entry_of
from tests.local_server import LocalServer
from tests.worker.record.entries import AT, launch, removal
from worker.record.channel import SinkError
from worker.record.otlp_sink import OtlpSink

pytestmark = pytest.mark.integration


class Receiver:
    """Receives logs over HTTP, and answers with ``status``."""

    def __init__(self) -> None:
        self.status = 200
        self.requests: list[ExportLogsServiceRequest] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
                assert self.path == "/v1/logs"
                if receiver.status == 200:
                    receiver.requests.append(ExportLogsServiceRequest.FromString(body))
                self.send_response(receiver.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Not worth a line."""

        self.server = LocalServer(("127.0.0.1", 0), Handler)

    @property
    def records(self) -> list[LogRecord]:
        return [
            record
            for request in self.requests
            for of_resource in request.resource_logs
            for of_scope in of_resource.scope_logs
            for record in of_scope.log_records
        ]


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """A receiver, to which OpenTelemetry's own variable points."""
    running = Receiver()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{running.server.server_address[1]}")
    thread = threading.Thread(target=running.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield running
    finally:
        running.server.shutdown()
        running.server.server_close()
        thread.join()


@pytest.fixture
def sink(receiver: Receiver) -> Iterator[OtlpSink]:
    """A sink that sends to the receiver."""
    otlp_sink = OtlpSink("io", "prod")
    yield otlp_sink
    otlp_sink.close()


def attributes(record: LogRecord) -> dict[str, str]:
    return {attribute.key: attribute.value.string_value for attribute in record.attributes}


def test_an_entry_is_a_log_record_with_its_time_its_kind_and_what_it_is_about(
    receiver: Receiver, sink: OtlpSink
) -> None:
    sink.write([launch(1), removal(2)])
    (request,) = receiver.requests
    first, second = receiver.records
    assert first.event_name == "tenon.record.launch"
    assert first.time_unix_nano == int(AT.timestamp()) * 10**9
    assert entry_of(first.body.string_value) == launch(1)
    assert attributes(first)["tenon.claim"] == "default-1"
    assert attributes(first)["tenon.instance"] == "i-1"
    assert (attributes(second)["tenon.kind"], attributes(second)["tenon.reason"]) == ("removal", "Expired")
    assert attributes(second)["tenon.actor"] == "ann with tenon node"
    resource = {item.key: item.value.string_value for item in request.resource_logs[0].resource.attributes}
    assert (resource["service.name"], resource["tenon.cluster"]) == ("tenon-io", "prod")


def test_a_collector_that_refuses_makes_the_batch_wait_for_the_next_attempt(receiver: Receiver, sink: OtlpSink) -> None:
    receiver.status = 400
    with pytest.raises(SinkError, match="OTEL_EXPORTER_OTLP_ENDPOINT"):
        sink.write([launch(1)])
    receiver.status = 200
    sink.write([launch(1)])
    assert [entry_of(record.body.string_value).id for record in receiver.records] == [launch(1).id]
