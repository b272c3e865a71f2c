"""Drops signals whose handler does not take their input, such as `keep` without one.

Temporal keeps a signal in the history, so a handler that fails on it fails every task of its workflow from then on: the
workflow stands still. The sender of a signal gets no answer, so the log says it.
"""

from __future__ import annotations

import inspect

from temporalio import workflow
from temporalio.worker import (
    HandleSignalInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)


class SignalInterceptor(Interceptor):
    """For workers that run workflows."""

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: ARG002 - the SDK passes it
    ) -> type[WorkflowInboundInterceptor]:
        """Return what wraps each workflow."""
        return _Inbound


class _Inbound(WorkflowInboundInterceptor):
    async def handle_signal(self, input: HandleSignalInput) -> None:
        handler = workflow.get_signal_handler(input.signal)
        if handler is not None and not _takes(inspect.signature(handler), len(input.args)):
            workflow.logger.warning(
                "A workflow ignores a signal that has no input, or too many", extra={"signal": input.signal}
            )
            return
        await super().handle_signal(input)


def _takes(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True
