"""Tells activities which operation they belong to, and records them.

Temporal's own interceptor is not used: it makes one trace of all runs of a workflow, with spans over waits, which never
ends for a node that lives for a month. Here a workflow only counts its operations, in memory, and names the current one
in the headers of its activities. Headers are not compared in a replay, so a workflow does the same with and without
tracing. The spans are made by the activities, so none is open while a workflow waits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NoReturn

from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload
from temporalio.worker import (
    ActivityInboundInterceptor,
    ContinueAsNewInput,
    ExecuteActivityInput,
    ExecuteWorkflowInput,
    HandleSignalInput,
    HandleUpdateInput,
    Interceptor,
    StartActivityInput,
    StartLocalActivityInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)

from activities.tracing import spans
from activities.tracing.catalogue import TRACED, Attribute, Operation, Traced
from activities.tracing.context import SpanId, origin_of, root_of
from activities.tracing.messages import attributes_of_input, attributes_of_result
from tenon.kube.timestamps import parse_instant
from tenon.messages.command_steps import DisruptInput
from tenon.messages.node import DisruptAnswer, Poke
from tenon.node.state import NodeClaimInput

HEADER = "tenon-operation"
LONGEST = timedelta(hours=1)
"""After this time an operation goes on in a new trace, so that the trace of a drain that is blocked for days ends."""
MAX_LINKS = 8


@dataclass(frozen=True, slots=True)
class TracedStep:
    """What the header of an activity says."""

    key: str
    is_first: bool
    links: tuple[str, ...] = ()
    since: str = ""
    """When the operation began, if that was before the first step, as an RFC 3339 timestamp."""

    def payload(self) -> Payload:
        """The header."""
        fields = {"key": self.key, "first": self.is_first, "links": self.links, "since": self.since}
        return Payload(metadata={"encoding": b"json/plain"}, data=json.dumps(fields).encode())

    @classmethod
    def of(cls, headers: Mapping[str, Payload]) -> TracedStep | None:
        """Read the header. None if there is none."""
        if HEADER not in headers:
            return None
        fields = json.loads(headers[HEADER].data)
        return cls(fields["key"], fields["first"], tuple(fields["links"]), fields["since"])


class TraceInterceptor(Interceptor):
    """For workers with tracing."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Record activities."""
        return _Activities(next)

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: ARG002
    ) -> type[WorkflowInboundInterceptor]:
        """Count the operations of workflows."""
        return _Workflow


class Operations:
    """The operations of one run of a workflow."""

    def __init__(self) -> None:
        self._current: tuple[Operation, str, datetime] | None = None
        self._count = 0
        self._links: list[str] = []
        """What the next operation links to."""
        self._since = ""

    def link(self, traceparent: str) -> None:
        """Let the next operation link to this span."""
        if SpanId.parse(traceparent) and traceparent not in self._links:
            self._links = [*self._links, traceparent][-MAX_LINKS:]

    def created_by(self, origin: str, now: datetime) -> None:
        """Let the first operation link to what created the NodeClaim, and begin with the oldest of its pods.

        Not with pods of long ago: the workflow may be a new one for an old NodeClaim.
        """
        traceparent, since = origin_of(origin)
        self.link(traceparent)
        self._since = since.isoformat() if since is not None and now - since < LONGEST else ""

    def step(self, traced: Traced, run_id: str, now: datetime) -> TracedStep:
        """The operation of the next activity, which begins a new one if it does not belong to the current one."""
        assert traced.operation is not None
        if self._current is not None and not traced.alone:
            operation, key, began = self._current
            if operation is traced.operation and now - began < LONGEST:
                return TracedStep(key, is_first=False)
        if self._current is not None:
            self.link(root_of(self._current[1]).traceparent)
        self._count += 1
        key = f"{run_id}/{self._count}"
        links, since = tuple(self._links), self._since
        self._links, self._since = [], ""
        self._current = (traced.operation, key, now)
        return TracedStep(key, is_first=True, links=links, since=since)

    @property
    def last(self) -> str:
        """The root span of the current operation; empty if there is none."""
        return root_of(self._current[1]).traceparent if self._current is not None else ""


class _Workflow(WorkflowInboundInterceptor):
    def __init__(self, next: WorkflowInboundInterceptor) -> None:
        super().__init__(next)
        self.operations = Operations()

    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        super().init(_Outbound(outbound, self.operations))

    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
        earlier = TracedStep.of(input.headers)
        for traceparent in earlier.links if earlier is not None else ():
            self.operations.link(traceparent)
        for argument in input.args:
            if isinstance(argument, NodeClaimInput) and argument.state is None:
                self.operations.created_by(argument.origin, workflow.now())
            if isinstance(argument, DisruptInput) and argument.awaited is None:
                self.operations.link(argument.command.trace)
        return await super().execute_workflow(input)

    async def handle_signal(self, input: HandleSignalInput) -> None:
        for message in input.args:
            if isinstance(message, Poke):
                for removal in message.removals:
                    self.operations.link(removal.trace)
        await super().handle_signal(input)

    async def handle_update_handler(self, input: HandleUpdateInput) -> Any:
        answer = await super().handle_update_handler(input)  # of a handler that does not wait, so the node still stays
        if isinstance(answer, DisruptAnswer) and answer.accepted:
            for message in input.args:  # as it was sent: `workflows.operator_updates` reads it
                self.operations.link(message.get("trace", ""))
        return answer


class _Outbound(WorkflowOutboundInterceptor):
    def __init__(self, next: WorkflowOutboundInterceptor, operations: Operations) -> None:
        super().__init__(next)
        self._operations = operations

    def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:
        input.headers = self._with_step(input.activity, input.headers)
        return super().start_activity(input)

    def start_local_activity(self, input: StartLocalActivityInput) -> workflow.ActivityHandle[Any]:
        input.headers = self._with_step(input.activity, input.headers)
        return super().start_local_activity(input)

    def continue_as_new(self, input: ContinueAsNewInput) -> NoReturn:
        if last := self._operations.last:
            input.headers = {**input.headers, HEADER: TracedStep("", is_first=False, links=(last,)).payload()}
        super().continue_as_new(input)

    def _with_step(self, name: str, headers: Mapping[str, Payload]) -> Mapping[str, Payload]:
        traced = TRACED.get(name)
        if traced is None or traced.operation is None:
            return headers
        step = self._operations.step(traced, workflow.info().run_id, workflow.now())
        return {**headers, HEADER: step.payload()}


class _Activities(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        info = activity.info()
        step, traced = TracedStep.of(input.headers), TRACED.get(info.activity_type)
        if step is None or traced is None or traced.operation is None:
            return await super().execute_activity(input)
        about = attributes_of_input(input.args[0]) if input.args else {}
        workflow_id = {Attribute.WORKFLOW: info.workflow_id or ""}
        since = parse_instant(step.since) or info.scheduled_time
        with spans.operation(
            traced.operation,
            step.key,
            info.activity_type,
            is_first=step.is_first and info.attempt == 1,
            at=since,
            links=step.links,
            waits=traced.waits,
            root={**about, **workflow_id, Attribute.RUN: info.workflow_run_id or ""},
            attributes={**about, **workflow_id, Attribute.ATTEMPT: info.attempt},
        ) as span:
            result = await super().execute_activity(input)
            if span is not None:
                span.set(attributes_of_result(result))
            return result
