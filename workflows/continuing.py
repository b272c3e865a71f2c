"""When a run continues as new, and on which version of the worker its next run begins.

With worker versioning, a run that has done more than wait stays on the version that ran it
(`worker/runtime/temporal/workflow_runner.py`). Temporal tells it when another version is to run it, and it continues as
new there. So no version replays steps of another version.
"""

from __future__ import annotations

from typing import NoReturn

from temporalio import workflow
from temporalio.workflow import ContinueAsNewVersioningBehavior

with workflow.unsafe.imports_passed_through():
    from tenon.messages.base import Message


def must_continue_as_new(max_history: int) -> bool:
    """Whether the history has more than ``max_history`` events, or Temporal asks for a new run."""
    info = workflow.info()
    return (
        info.is_continue_as_new_suggested()
        or info.get_current_history_length() > max_history
        or is_for_another_version()
    )


def is_for_another_version() -> bool:
    """Whether Temporal now sends the next run to another version of the worker. False without worker versioning."""
    return workflow.info().is_target_worker_deployment_version_changed()


def continue_as_new(state: Message) -> NoReturn:
    """Continue as new with ``state``, on the version of the worker that gets new workflows."""
    workflow.continue_as_new(state, initial_versioning_behavior=ContinueAsNewVersioningBehavior.AUTO_UPGRADE)
