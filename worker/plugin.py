"""One plugin for client, worker and replayer alike: data converter, workflow sandbox rules, tracing.

A test worker or a replay that differs from production proves nothing, so there is only this one assembly.
"""

from __future__ import annotations

import dataclasses

from temporalio.contrib.opentelemetry import TracingInterceptor
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.plugin import SimplePlugin
from temporalio.worker import WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions


def _sandboxed(runner: WorkflowRunner | None) -> WorkflowRunner:
    """The sandboxed runner with the pure code passed through: it has no clock and no state to leak."""
    restrictions = SandboxRestrictions.default.with_passthrough_modules("tenon", "workflows.names", "workflows.options")
    if isinstance(runner, SandboxedWorkflowRunner):
        return dataclasses.replace(runner, restrictions=restrictions)
    return SandboxedWorkflowRunner(restrictions=restrictions)


class TenonPlugin(SimplePlugin):
    """Registers on the client; workers and replayers inherit it."""

    def __init__(self, *, tracing: bool = False) -> None:
        """With ``tracing``, spans of activities and client calls go to the global tracer provider."""
        super().__init__(
            "tenon",
            data_converter=pydantic_data_converter,
            workflow_runner=_sandboxed,
            interceptors=[TracingInterceptor()] if tracing else None,
        )
