"""One plugin for clients, workers and replayers: data converter, payload codec, workflow runner, tracing.

A test worker or a replay that differs from production proves nothing, so all of them use this one configuration. Tests
only enable stricter checks.
"""

from __future__ import annotations

import dataclasses
from functools import partial

from temporalio import client, worker
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import DataConverter, PayloadCodec
from temporalio.plugin import SimplePlugin
from temporalio.worker import WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from worker.runtime.temporal.checked_signals import SignalInterceptor
from worker.runtime.temporal.failures import EncodedFailureConverter, FailureConverter
from worker.runtime.temporal.workflow_runner import TenonWorkflowRunner


def _runner(runner: WorkflowRunner | None, *, guarded: bool) -> WorkflowRunner:
    """The runner of workflows.

    Temporal's sandbox imports the modules of a workflow again for each run, to detect use of the clock, the disk or
    randomness. Tests accept that cost (``guarded``). A worker runs the same code without the sandbox, because with all
    modules passed through it detects nothing and takes a third of the CPU time of a replay.
    """
    if not guarded:
        return TenonWorkflowRunner()
    passed = SandboxRestrictions.default.with_passthrough_modules("tenon", "workflows.names", "workflows.options")
    if isinstance(runner, SandboxedWorkflowRunner):
        return dataclasses.replace(runner, restrictions=passed)
    return SandboxedWorkflowRunner(restrictions=passed)


def converter(codec: PayloadCodec | None) -> DataConverter:
    """The converter. With a codec, it also encodes the messages of errors, which name pods and nodes."""
    return dataclasses.replace(
        pydantic_data_converter,
        payload_codec=codec,
        failure_converter_class=FailureConverter if codec is None else EncodedFailureConverter,
    )


def _interceptors(*, tracing: bool) -> list[client.Interceptor | worker.Interceptor]:
    if not tracing:
        return [SignalInterceptor()]
    from worker.runtime.temporal.trace_interceptor import TraceInterceptor

    return [TraceInterceptor(), SignalInterceptor()]


class TenonPlugin(SimplePlugin):
    """Registered on the client. Workers and replayers inherit it."""

    def __init__(self, *, tracing: bool = False, guarded: bool = False, codec: PayloadCodec | None = None) -> None:
        """With ``tracing``, activities are recorded as spans (`trace_interceptor`).

        ``codec`` encodes payloads (see `payload_codec`).

        With ``guarded``, which is for tests, a forbidden operation in a workflow is an error.
        """
        super().__init__(
            "tenon",
            data_converter=converter(codec),
            workflow_runner=partial(_runner, guarded=guarded),
            interceptors=_interceptors(tracing=tracing),
        )
