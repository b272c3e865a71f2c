"""A receiver of OTLP over HTTP, which keeps what arrives and reads the spans in it as a collector would."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.local_server import LocalServer

TRACES = "/v1/traces"


@dataclass(frozen=True)
class ReceivedSpan:
    """A span as it arrived."""

    trace: str
    id: str
    parent: str
    """Empty for a root span."""
    name: str
    kind: str
    start: int
    end: int
    attributes: dict[str, str | int | float | bool]
    links: tuple[tuple[str, str], ...]
    """The trace and the span of each."""
    failed: bool
    events: tuple[str, ...]
    resource: dict[str, str | int | float | bool]

    @property
    def seconds(self) -> float:
        """Its length."""
        return (self.end - self.start) / 1e9


class OtlpReceiver:
    """What OpenTelemetry sends to: `serving` runs it on loopback."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        """Each request's body, without compression, and its headers."""
        self._requests: list[bytes] = []
        bodies, requests = self.bodies, self._requests

        class Sink(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
                bodies.append(body)
                bodies.append(str(self.headers).encode())
                if self.path == TRACES:
                    requests.append(body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Not worth a line."""

        self._server = LocalServer(("127.0.0.1", 0), Sink)
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    @contextmanager
    def serving(self) -> Iterator[OtlpReceiver]:
        """Serve on loopback."""
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def spans(self) -> list[ReceivedSpan]:
        """All spans that have arrived."""
        received = []
        for body in list(self._requests):
            for group in ExportTraceServiceRequest.FromString(body).resource_spans:
                resource = {item.key: _value(item.value) for item in group.resource.attributes}
                for scope in group.scope_spans:
                    received += [_read(span, resource) for span in scope.spans]
        return received


def children_of(spans: Sequence[ReceivedSpan], parent: ReceivedSpan) -> list[ReceivedSpan]:
    """The spans right below this one, in the order of their start."""
    children = [span for span in spans if span.trace == parent.trace and span.parent == parent.id]
    return sorted(children, key=lambda span: span.start)


def _value(value: AnyValue) -> str | int | float | bool:
    kind = value.WhichOneof("value")
    content: str | int | float | bool = getattr(value, kind) if kind else ""
    return content


def _read(span: Span, resource: dict[str, str | int | float | bool]) -> ReceivedSpan:
    return ReceivedSpan(
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        name=span.name,
        kind=Span.SpanKind.Name(span.kind),
        start=span.start_time_unix_nano,
        end=span.end_time_unix_nano,
        attributes={item.key: _value(item.value) for item in span.attributes},
        links=tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
        failed=span.status.code == Status.STATUS_CODE_ERROR,
        events=tuple(event.name for event in span.events),
        resource=resource,
    )
