"""How workflows call the planner: on the task queue of the leading replica.

A call may be a long poll without heartbeats, so Temporal does not notice when a replica loses power in the middle of
one. For a minute Temporal also gives new tasks to the polls of that replica. Therefore each leader serves its own task
queue and announces its name. The workflow then abandons the open call and repeats it on that queue.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from tenon.messages.base import ActivityName, Message
    from workflows import activity_calls, names
    from workflows.options import OPTIONS

Answer = TypeVar("Answer", bound=Message)


class PlannerCaller:
    """Base of the workflows that call the planner."""

    def __init__(self, plan_queue: str) -> None:
        self.plan_queue = plan_queue
        """The task queue of the leader. Empty while no leader is known; each leader also serves the shared queue."""
        self.planner_changed = False

    async def poll(
        self,
        activity: ActivityName,
        activity_input: Message,
        answer: type[Answer],
        summary: str,
        outdated: Callable[[], bool] = lambda: False,
    ) -> Answer | None:
        """Poll the planner and return its answer, or None if the caller must poll again, perhaps with other input.

        The caller must poll again if another leader announced itself, if the input became ``outdated``, or if the
        planner failed.
        """
        try:
            return await self._call(activity, activity_input, answer, summary, outdated)
        except ActivityError as error:
            workflow.logger.info("The planner failed, and the workflow retries", extra={"error": str(error.cause)})
            return None

    async def call(self, activity: ActivityName, activity_input: Message, answer: type[Answer], summary: str) -> Answer:
        """Call the planner and return its answer. If another leader announces itself before, repeat the call there.

        Raises:
            ActivityError: the planner failed.
        """
        while (activity_result := await self._call(activity, activity_input, answer, summary, lambda: False)) is None:
            workflow.logger.info(
                "Another leader announced itself and gets the call", extra={"activity": activity.value}
            )
        return activity_result

    async def ask(self, activity: ActivityName, activity_input: Message, answer: type[Answer], summary: str) -> Answer:
        """Call the planner for an operator and return its answer. A call to a leader that is gone fails in time.

        It may run next to a call of `poll` or `call`, whose leader it does not change.

        Raises:
            ActivityError: the planner failed, or did not answer in time.
        """
        return await self._started_call(activity, activity_input, answer, summary)

    def _started_call(
        self, activity: ActivityName, activity_input: Message, answer: type[Answer], summary: str
    ) -> workflow.ActivityHandle[Answer]:
        shared_queue = names.lane_queue(workflow.info().task_queue, OPTIONS[activity].lane)
        return activity_calls.start(activity, activity_input, answer, summary, self.plan_queue or shared_queue)

    async def _call(
        self,
        activity: ActivityName,
        activity_input: Message,
        answer: type[Answer],
        summary: str,
        outdated: Callable[[], bool],
    ) -> Answer | None:
        self.planner_changed = False
        call = self._started_call(activity, activity_input, answer, summary)
        await workflow.wait_condition(lambda: call.done() or self.planner_changed or outdated())
        if not call.done():
            call.cancel()
        try:
            activity_result: Answer = await call
            return activity_result
        except ActivityError:
            if not (self.planner_changed or outdated()):
                raise
            return None

    @workflow.signal(description="Sent by Tenon: another replica of the worker leads, and plans from now on.")
    def planner_started(self, queue: str) -> None:
        """Call the leader that serves this task queue. It has no open call of this workflow yet."""
        self.plan_queue = queue
        self.planner_changed = True
