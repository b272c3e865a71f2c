"""A search for nodes to disrupt is a trace, if it looked for moves or found anything."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from activities.tracing.catalogue import Attribute, Operation, Phase
from activities.tracing.context import SpanId
from tenon.disruption.decision import DisruptionBlocked
from tests.activities.disruption import disruption_setting, move_setting
from tests.activities.disruption.disruption_setting import QUESTION, managed
from tests.activities.disruption.move_setting import command, scripted
from tests.activities.tracing.collected_spans import collecting


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    with collecting() as exporter:
        yield exporter


def child_of(span: ReadableSpan, parent: ReadableSpan) -> bool:
    assert parent.context is not None
    return span.parent is not None and span.parent.span_id == parent.context.span_id


async def test_a_pass_says_what_its_methods_chose_and_commands_carry_its_span(exporter: InMemorySpanExporter) -> None:
    method = scripted(
        command("a", "b", expected=0.2), blocked={"c": DisruptionBlocked("it drifted", "a pod may not be moved")}
    )
    (message,) = await move_setting.Setting("a", "b", "c", methods=[method]).run_pass()
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert list(spans) == [
        Phase.TYPES, Phase.PROBLEM, Phase.METHOD, Phase.COMMANDS, Phase.PASS, Operation.SEARCH
    ]  # fmt: skip
    root, step = spans[Operation.SEARCH], spans[Phase.PASS]
    assert child_of(step, root)
    assert all(child_of(span, step) for span in list(spans.values())[:4])
    assert step.context is not None
    assert message.trace == SpanId(step.context.trace_id, step.context.span_id).traceparent
    assert dict(spans[Phase.METHOD].attributes or {}) == {
        Attribute.METHOD: "scripted",
        Attribute.REASON: "Underutilized",
        Attribute.CANDIDATES: 3,
        Attribute.NODECLAIMS: 2,
        Attribute.SAVING: 0.2,
    }
    assert dict(step.attributes or {}) == {
        Attribute.NODES: 3,
        Attribute.CANDIDATES: 3,
        Attribute.BLOCKED: 1,
        Attribute.COMMANDS: message.id,
        Attribute.NODECLAIMS: 2,
        Attribute.SAVING: 0.2,
    }


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
async def test_an_evaluation_that_finds_an_empty_node_is_a_trace(exporter: InMemorySpanExporter) -> None:
    decision = await disruption_setting.Setting(managed("a"), after="0s").disruptor.await_candidates(QUESTION)
    (message,) = decision.commands
    step, root = exporter.get_finished_spans()
    assert (step.name, root.name) == (Phase.EVALUATE, Operation.SEARCH)
    assert (step.attributes or {})[Attribute.COMMANDS] == message.id
    assert step.context is not None
    assert message.trace == SpanId(step.context.trace_id, step.context.span_id).traceparent


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
async def test_evaluations_that_find_nothing_have_no_trace(exporter: InMemorySpanExporter) -> None:
    setting = disruption_setting.Setting(managed("a", empty=False))
    assert (await setting.disruptor.await_candidates(QUESTION)).commands == []
    assert exporter.get_finished_spans() == ()


async def test_without_tracing_a_command_carries_no_span() -> None:
    (message,) = await move_setting.Setting("a", methods=[scripted(command("a"))]).run_pass()
    assert message.trace == ""
