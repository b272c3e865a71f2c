"""One plugin for clients, workers and replayers: data converter, payload codec, workflow runner, tracing.

A test worker or a replay that differs from production proves nothing, so all of them use this one configuration. Tests
only enable stricter checks.
"""

from __future__ import annotations

import dataclasses
from functools import partial

from temporalio import client, worker
from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter, DefaultFailureConverterWithEncodedAttributes, PayloadCodec
from temporalio.plugin import SimplePlugin
from temporalio.worker import UnsandboxedWorkflowRunner, WorkflowInstance, WorkflowInstanceDetails, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from activities.metrics import WORKFLOW_TASK_FAILURES


class CountingRunner(UnsandboxedWorkflowRunner):
    """Runs workflows without the sandbox, and counts their failed tasks by the type of the workflow.

    Temporal retries a task that fails on an error in the code until a version without the error runs, so the workflow
    stands still. Temporal's SDK counts these tasks too, but serves its metrics only on a port of its own.
    """

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """Create an instance that counts."""
        instance = super().create_instance(det)
        activate = instance.activate

        def counted(act: WorkflowActivation) -> WorkflowActivationCompletion:
            completion = activate(act)
            if completion.HasField("failed"):
                WORKFLOW_TASK_FAILURES.labels(det.info.workflow_type).inc()
            return completion

        instance.activate = counted  # type: ignore[method-assign]  # an instance has more methods, and the SDK adds some
        return instance


def _runner(runner: WorkflowRunner | None, *, guarded: bool) -> WorkflowRunner:
    """The runner of workflows.

    Temporal's sandbox imports the modules of a workflow again for each run, to detect use of the clock, the disk or
    randomness. Tests accept that cost (``guarded``). A worker runs the same code without the sandbox, because with all
    modules passed through it detects nothing and takes a third of the CPU time of a replay.
    """
    if not guarded:
        return CountingRunner()
    passed = SandboxRestrictions.default.with_passthrough_modules("tenon", "workflows.names", "workflows.options")
    if isinstance(runner, SandboxedWorkflowRunner):
        return dataclasses.replace(runner, restrictions=passed)
    return SandboxedWorkflowRunner(restrictions=passed)


def converter(codec: PayloadCodec | None) -> DataConverter:
    """The converter. With a codec, it also encodes the messages of errors, which name pods and nodes."""
    if codec is None:
        return pydantic_data_converter
    return dataclasses.replace(
        pydantic_data_converter,
        payload_codec=codec,
        failure_converter_class=DefaultFailureConverterWithEncodedAttributes,
    )


def _tracing() -> list[client.Interceptor | worker.Interceptor]:
    from temporalio.contrib.opentelemetry import TracingInterceptor  # see `worker.runtime.tracing`

    return [TracingInterceptor()]


class TenonPlugin(SimplePlugin):
    """Registered on the client. Workers and replayers inherit it."""

    def __init__(self, *, tracing: bool = False, guarded: bool = False, codec: PayloadCodec | None = None) -> None:
        """With ``tracing``, spans of activities and client calls go to the global tracer provider.

        ``codec`` encodes payloads (see `payload_codec`).

        With ``guarded``, which is for tests, a forbidden operation in a workflow is an error.
        """
        super().__init__(
            "tenon",
            data_converter=converter(codec),
            workflow_runner=partial(_runner, guarded=guarded),
            interceptors=_tracing() if tracing else None,
        )
