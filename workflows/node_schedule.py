"""The workflow that starts when a NodeSchedule changes what holds. A Temporal Schedule with these times starts it.

The worker goes by the clock itself, so nothing depends on this workflow: it shows each change in Temporal, and wakes a
worker whose own clock is late.
"""

from __future__ import annotations

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from tenon.messages.base import ActivityName
    from tenon.messages.node_schedule import NodeScheduleInput, NodeScheduleResult
    from tenon.schedule import page
    from workflows import names
    from workflows.options import OPTIONS


@workflow.defn(name="NodeSchedule")
class NodeScheduleWorkflow:
    """Asks the leader to carry the NodeSchedule out, and shows what holds."""

    @workflow.run
    async def run(self, begin: NodeScheduleInput) -> NodeScheduleResult:
        """Return what holds now."""
        options = OPTIONS[ActivityName.APPLY_SCHEDULE]
        result: NodeScheduleResult = await workflow.execute_activity(
            ActivityName.APPLY_SCHEDULE.value,
            begin,
            task_queue=names.plan_queue(begin.cluster),
            result_type=NodeScheduleResult,
            start_to_close_timeout=options.try_for,
            schedule_to_close_timeout=options.give_up_after,
            retry_policy=options.retry,
            summary=f"what NodeSchedule {begin.name} asks for now",
        )
        workflow.set_current_details(page.current_details(result))
        return result
