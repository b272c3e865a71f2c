"""How the two workflows of a cluster ask its planner: on the task queue of the replica that leads.

A question is a long poll without heartbeats, so Temporal does not notice that a replica lost its power in the middle of
one. And for a minute Temporal still gives new tasks to the polls of that replica. So each leader serves a task queue of
its own and says its name, and the workflow leaves whatever question is open and asks there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from tenon.lifecycle.messages import ActivityName, Message
    from workflows.options import OPTIONS

Answer = TypeVar("Answer", bound=Message)


class AsksPlanner:
    """What both workflows know of the planner."""

    def __init__(self, plan_queue: str) -> None:
        self.plan_queue = plan_queue
        """The task queue of the leader. Empty while none is known: each leader serves the shared queue too."""
        self.planner_changed = False
        self._next_queue = ""

    async def ask(
        self,
        activity: ActivityName,
        given: Message,
        answer: type[Answer],
        summary: str,
        outdated: Callable[[], bool] = lambda: False,
    ) -> Answer | None:
        """The planner's answer; None when a leader announced itself meanwhile and must be asked instead, or when the
        question is ``outdated``.

        Raises:
            ActivityError: the planner failed.
        """
        self.planner_changed = False
        options = OPTIONS[activity]
        call = workflow.start_activity(
            activity.value,
            given,
            result_type=answer,
            task_queue=self.plan_queue or f"{workflow.info().task_queue}-plan",
            start_to_close_timeout=options.try_for,
            retry_policy=options.retry,
            cancellation_type=options.cancellation,
            summary=summary,
        )
        await workflow.wait_condition(lambda: call.done() or self.planner_changed or outdated())
        if not call.done():
            call.cancel()
        try:
            found: Answer = await call
            return found
        except ActivityError:
            if not (self.planner_changed or outdated()):
                raise
            return None

    @workflow.signal
    def planner_serves(self, queue: str) -> None:
        """The leader that announces itself next serves this task queue.

        A signal of its own without any effect, for earlier versions of this code do not know it and must be able to
        replay what follows.
        """
        self._next_queue = queue

    @workflow.signal
    def planner_started(self) -> None:
        """A leader has no open question of this workflow: ask it. One that named no queue serves the shared one."""
        self.plan_queue, self._next_queue = self._next_queue, ""
        self.planner_changed = True
