"""To which operation the activities of a workflow belong."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from temporalio.worker import HandleUpdateInput, WorkflowInterceptorClassInput

from activities.tracing.catalogue import TRACED
from activities.tracing.context import SpanId, root_of
from tenon.messages.base import ActivityName
from tenon.messages.node import Disrupt, DisruptAnswer
from worker.runtime.temporal.trace_interceptor import (
    HEADER,
    LONGEST,
    MAX_LINKS,
    Operations,
    TracedStep,
    TraceInterceptor,
)

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CAUSE = SpanId(1, 2).traceparent


def steps(operations: Operations, *names: ActivityName, at: datetime = NOW) -> list[TracedStep]:
    return [operations.step(TRACED[name], "run", at) for name in names]


def test_a_node_that_starts_and_leaves_is_two_operations() -> None:
    launch, register, cordon, release = steps(
        Operations(), ActivityName.LAUNCH, ActivityName.REGISTER, ActivityName.CORDON, ActivityName.RELEASE
    )
    assert (launch.key, register.key, cordon.key, release.key) == ("run/1", "run/1", "run/2", "run/2")
    assert [step.is_first for step in (launch, register, cordon, release)] == [True, False, True, False]
    assert cordon.links == (root_of("run/1").traceparent,)


def test_each_plan_is_an_operation_of_its_own() -> None:
    first, second = steps(Operations(), ActivityName.PLAN, ActivityName.PLAN)
    assert first.is_first
    assert second.is_first
    assert first.key != second.key


def test_a_drain_of_many_hours_goes_on_in_a_new_trace_that_links_to_the_one_before() -> None:
    operations = Operations()
    (first,) = steps(operations, ActivityName.CORDON)
    (soon,) = steps(operations, ActivityName.DRAIN, at=NOW + LONGEST - timedelta(seconds=1))
    (late,) = steps(operations, ActivityName.DRAIN, at=NOW + LONGEST)
    assert soon.key == first.key
    assert late.is_first
    assert late.links == (root_of(first.key).traceparent,)


def test_what_asked_for_an_operation_is_linked_once() -> None:
    operations = Operations()
    for _ in range(2):
        operations.link(CAUSE)
    operations.link("what a user wrote")
    first, second = steps(operations, ActivityName.CORDON, ActivityName.DRAIN)
    assert first.links == (CAUSE,)
    assert second.links == ()


def test_links_are_bounded() -> None:
    operations = Operations()
    for number in range(1, 100):
        operations.link(SpanId(number, 1).traceparent)
    (step,) = steps(operations, ActivityName.CORDON)
    assert len(step.links) == MAX_LINKS
    assert step.links[-1] == SpanId(99, 1).traceparent


def test_a_start_begins_with_its_oldest_pod_unless_the_claim_is_old() -> None:
    """A workflow that was terminated starts again from a NodeClaim whose pods came a month ago."""
    for age, since in ((timedelta(minutes=1), NOW - timedelta(minutes=1)), (timedelta(days=30), None)):
        operations = Operations()
        operations.created_by(f"{CAUSE} {(NOW - age).isoformat()}", NOW)
        launch, register = steps(operations, ActivityName.LAUNCH, ActivityName.REGISTER)
        assert launch.links == (CAUSE,)
        assert launch.since == (since.isoformat() if since else "")
        assert register.since == ""


def test_a_header_says_the_same_when_it_is_read() -> None:
    step = TracedStep("run/1", is_first=True, links=(CAUSE,), since=NOW.isoformat())
    assert TracedStep.of({HEADER: step.payload()}) == step
    assert TracedStep.of({}) is None


@pytest.mark.parametrize(
    ("answer", "links"), [(DisruptAnswer(accepted=True), (CAUSE,)), (DisruptAnswer(accepted=False), ())]
)
async def test_a_node_that_a_command_asks_to_leave_links_to_the_command(
    answer: DisruptAnswer, links: tuple[str, ...]
) -> None:
    """The workflow gets the input of an update as it was sent, and reads it itself."""

    class Handler:
        async def handle_update_handler(self, _input: HandleUpdateInput) -> DisruptAnswer:
            return answer

    inbound = TraceInterceptor().workflow_interceptor_class(cast("WorkflowInterceptorClassInput", None))
    workflow_inbound = cast("Any", inbound)(Handler())
    update_input = Disrupt(command="empty-1", reason="Empty", trace=CAUSE).model_dump(mode="json")
    await workflow_inbound.handle_update_handler(HandleUpdateInput("id", "disrupt", [update_input], {}))
    (step,) = steps(workflow_inbound.operations, ActivityName.CORDON)
    assert step.links == links
