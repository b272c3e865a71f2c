"""How workflows start activities: with the timeouts and retries of their row in `workflows/options.py`."""

from __future__ import annotations

from typing import TypeVar

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from tenon.messages.base import ActivityName, Message
    from workflows.options import OPTIONS

Answer = TypeVar("Answer", bound=Message)


def start(
    activity: ActivityName, activity_input: Message, answer: type[Answer], summary: str, task_queue: str | None = None
) -> workflow.ActivityHandle[Answer]:
    """Start an activity; to await the handle is to wait for its answer. Temporal's UI shows ``summary`` next to it.

    ``task_queue``: by default, that of the workflow.
    """
    options = OPTIONS[activity]
    return workflow.start_activity(
        activity.value,
        activity_input,
        task_queue=task_queue,
        result_type=answer,
        start_to_close_timeout=options.try_for,
        schedule_to_close_timeout=options.give_up_after,
        heartbeat_timeout=options.heartbeat,
        retry_policy=options.retry,
        cancellation_type=options.cancellation,
        summary=summary,
    )
