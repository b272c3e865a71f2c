"""What is recorded as spans, and what is not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased, TraceIdRatioBased

from activities.tracing import spans
from activities.tracing.catalogue import Attribute, Operation, Phase
from activities.tracing.context import SpanId, origin_of, root_of
from activities.tracing.kubernetes_requests import described
from tests.activities.tracing.collected_spans import collecting

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
OTHER = SpanId(0xABC, 0xDEF)


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    with collecting() as exporter:
        yield exporter


def step(key: str = "run/1", *, is_first: bool = True, waits: bool = False, links: tuple[str, ...] = ()) -> object:
    return spans.operation(
        Operation.START,
        key,
        "launch instance",
        is_first=is_first,
        at=AT,
        links=links,
        waits=waits,
        root={Attribute.NODECLAIM: "a"},
        attributes={Attribute.NODECLAIM: "a"},
    )


def by_name(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in exporter.get_finished_spans()}


def length(span: ReadableSpan) -> int:
    assert span.end_time is not None
    assert span.start_time is not None
    return span.end_time - span.start_time


def test_an_operation_has_a_root_without_length_and_its_steps_below(exporter: InMemorySpanExporter) -> None:
    with step(links=(OTHER.traceparent, "nonsense")), spans.phase(Phase.SOLVE):  # type: ignore[attr-defined]
        spans.began(AT.timestamp() - 60)
    with step(is_first=False):  # type: ignore[attr-defined]
        pass
    root, *steps = sorted(exporter.get_finished_spans(), key=lambda span: span.start_time or 0)
    assert root.name == Operation.START
    assert root.start_time == root.end_time == int((AT.timestamp() - 60) * 1e9)
    assert [link.context.span_id for link in root.links] == [OTHER.span]
    assert root.parent is None
    first, phase, second = steps
    assert {span.context.trace_id for span in exporter.get_finished_spans() if span.context} == {root_of("run/1").trace}
    assert first.parent is not None
    assert second.parent is not None
    assert {first.parent.span_id, second.parent.span_id} == {root_of("run/1").span}
    assert phase.parent is not None
    assert first.context is not None
    assert phase.parent.span_id == first.context.span_id


def test_a_step_that_waits_has_no_length_and_no_reads(exporter: InMemorySpanExporter) -> None:
    with step(waits=True):  # type: ignore[attr-defined]
        assert spans.request("get pods", {}, reads=True) is None
        span = spans.request("create pods/eviction", {}, reads=False)
        assert span is not None
        span.end()
    names = by_name(exporter)
    assert length(names["launch instance"]) == 0
    assert "create pods/eviction" in names


def test_an_error_is_recorded_and_raised(exporter: InMemorySpanExporter) -> None:
    with pytest.raises(ValueError, match="broken"), step():  # type: ignore[attr-defined]
        raise ValueError("broken")
    span = by_name(exporter)["launch instance"]
    assert not span.status.is_ok
    (event,) = span.events
    assert dict(event.attributes or {}) == {"exception.type": "ValueError", "exception.message": "broken"}


def test_outside_of_an_operation_nothing_is_recorded(exporter: InMemorySpanExporter) -> None:
    with spans.phase(Phase.SOLVE):
        assert spans.request("get pods", {}, reads=False) is None
        assert spans.traceparent() == spans.origin(1.0) == ""
    assert exporter.get_finished_spans() == ()


def test_an_operation_that_did_nothing_is_not_sent(exporter: InMemorySpanExporter) -> None:
    with step():  # type: ignore[attr-defined]
        spans.discard()
    assert exporter.get_finished_spans() == ()


def test_an_error_of_an_operation_that_did_nothing_is_raised(exporter: InMemorySpanExporter) -> None:
    def fail() -> None:
        spans.discard()
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"), step():  # type: ignore[attr-defined]
        fail()
    assert exporter.get_finished_spans() == ()


async def test_a_task_that_outlives_its_operation_adds_nothing_to_it(exporter: InMemorySpanExporter) -> None:
    ended = asyncio.Event()

    async def outlive() -> None:
        await ended.wait()
        assert spans.request("get pods", {}, reads=False) is None

    with step():  # type: ignore[attr-defined]
        task = asyncio.create_task(outlive())
    ended.set()
    await task
    assert set(by_name(exporter)) == {Operation.START, "launch instance"}


def test_requests_beyond_the_limit_are_counted(exporter: InMemorySpanExporter) -> None:
    with step():  # type: ignore[attr-defined]
        for _ in range(spans.MAX_REQUESTS + 3):
            span = spans.request("create nodeclaims", {}, reads=False)
            if span is not None:
                span.end()
    assert len(exporter.get_finished_spans()) == spans.MAX_REQUESTS + 2
    assert (by_name(exporter)["launch instance"].attributes or {})[Attribute.DROPPED] == 3


def test_all_processes_sample_the_same_traces() -> None:
    """The parent of a span is never a span of this process, so the decision follows from the trace ID alone."""
    for ratio, expected in ((ALWAYS_OFF, 0), (TraceIdRatioBased(0.5), None), (ALWAYS_ON, 40)):
        with collecting(ParentBased(ratio)) as exporter:
            for number in range(20):
                with step(f"run/{number}"):  # type: ignore[attr-defined]
                    pass
        traces: dict[int, int] = {}
        for span in exporter.get_finished_spans():
            assert span.context is not None
            traces[span.context.trace_id] = traces.get(span.context.trace_id, 0) + 1
        assert set(traces.values()) <= {2}  # both spans of a trace, or none
        assert expected is None or sum(traces.values()) == expected
        if expected is None:
            assert 0 < len(traces) < 20


@pytest.mark.parametrize("text", ["", "00-abc-def-01", f"00-{'0' * 32}-{'1' * 16}-01", OTHER.traceparent + "x"])
def test_what_is_no_traceparent_is_ignored(text: str) -> None:
    assert SpanId.parse(text) is None
    assert origin_of(f"{text} yesterday") == ("", None)


def test_the_annotation_of_a_claim_says_who_created_it_and_since_when_its_pod_waits(
    exporter: InMemorySpanExporter,
) -> None:
    with step():  # type: ignore[attr-defined]
        text = spans.origin(AT.timestamp())
        assert origin_of(text) == (spans.traceparent(), AT)
        assert origin_of(spans.origin(0.0)) == (spans.traceparent(), None)


@pytest.mark.parametrize(
    ("method", "path", "name", "attributes"),
    [
        ("POST", "/api/v1/namespaces/shop/pods/web/eviction", "create pods/eviction", {"k8s.pod.name": "web"}),
        ("GET", "/apis/karpenter.sh/v1/nodeclaims", "list nodeclaims", {"tenon.nodeclaim": ""}),
        ("PATCH", "/api/v1/nodes/ip-10-0-0-1/status", "patch nodes/status", {"k8s.node.name": "ip-10-0-0-1"}),
        ("GET", "/api/v1/namespaces/shop", "get namespaces", {"tenon.kubernetes.name": "shop"}),
    ],
)
def test_a_request_to_the_api_server_is_named_by_verb_and_resource(
    method: str, path: str, name: str, attributes: dict[str, str]
) -> None:
    span_name, present = described(method, path)
    assert span_name == name
    assert attributes.items() <= {key.value: value for key, value in present.items()}.items()
