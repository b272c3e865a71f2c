"""The spans of requests to AWS, by botocore's own events."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import botocore.session
import pytest
from botocore.awsrequest import AWSResponse
from botocore.config import Config
from botocore.exceptions import ClientError
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from activities.tracing import aws_requests, spans
from activities.tracing.catalogue import Attribute, Operation
from activities.tracing.open_telemetry import Identifiers, OpenTelemetry

REFUSED = (
    "<Response><Errors><Error><Code>InvalidInstanceID.NotFound</Code><Message>It is gone.</Message></Error></Errors>"
    "<RequestID>request-1</RequestID></Response>"
)
BUSY = REFUSED.replace("InvalidInstanceID.NotFound", "InternalError")


class _Raw:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        yield self._content


def client(*answers: tuple[int, str]) -> Any:
    """A client of EC2 that gets these answers, without a network."""
    session: Any = botocore.session.Session()  # its handlers may answer, which the stubs do not know
    session.set_credentials("key", "secret")
    aws_requests.attach(session)
    remaining = list(answers)

    def answer(request: Any, **_: Any) -> AWSResponse:
        status, body = remaining.pop(0)
        return AWSResponse(request.url, status, {}, _Raw(body.encode()))  # type: ignore[arg-type]

    session.register("before-send", answer)
    config = Config(retries={"mode": "standard", "total_max_attempts": 2})
    return session.create_client("ec2", region_name="us-west-2", config=config)


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    memory = InMemorySpanExporter()
    provider = TracerProvider(sampler=ALWAYS_ON, id_generator=Identifiers())
    provider.add_span_processor(SimpleSpanProcessor(memory))
    spans.enable(OpenTelemetry(provider))
    yield memory
    spans.enable(None)


def recorded(exporter: InMemorySpanExporter, ec2: Any) -> list[ReadableSpan]:
    """The spans of a termination that EC2 refuses."""
    with (
        spans.operation(
            Operation.LEAVE,
            "run/1",
            "terminate instance",
            is_first=False,
            at=datetime(2026, 1, 1, tzinfo=UTC),
            root={},
            attributes={},
        ),
        pytest.raises(ClientError),
    ):
        ec2.terminate_instances(InstanceIds=["i-1"])
    return [span for span in exporter.get_finished_spans() if span.name.startswith("EC2.")]


def test_a_refused_request_says_why_and_by_which_id_aws_finds_it(exporter: InMemorySpanExporter) -> None:
    (span,) = recorded(exporter, client((400, REFUSED)))
    assert span.name == "EC2.TerminateInstances"
    assert dict(span.attributes or {}) == {
        Attribute.RPC_SYSTEM: "aws-api",
        Attribute.RPC_SERVICE: "EC2",
        Attribute.RPC_METHOD: "TerminateInstances",
        Attribute.REGION: "us-west-2",
        Attribute.HTTP_STATUS: 400,
        Attribute.AWS_REQUEST: "request-1",
        Attribute.AWS_CODE: "InvalidInstanceID.NotFound",
        Attribute.ERROR: "InvalidInstanceID.NotFound",
    }
    assert not span.status.is_ok


def test_each_attempt_of_a_request_has_a_span(exporter: InMemorySpanExporter) -> None:
    """The pause of botocore between two attempts is in none of them."""
    first, second = recorded(exporter, client((500, BUSY), (400, REFUSED)))
    assert [(span.attributes or {})[Attribute.HTTP_STATUS] for span in (first, second)] == [500, 400]
    assert (first.end_time or 0) <= (second.start_time or 0)
