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
    from workflows import activity_calls, names


@workflow.defn(name="NodeSchedule")
class NodeScheduleWorkflow:
    """Asks the leader to carry the NodeSchedule out, and shows what holds."""

    @workflow.run
    async def run(self, begin: NodeScheduleInput) -> NodeScheduleResult:
        """Return what holds now."""
        result = await activity_calls.start(
            ActivityName.APPLY_SCHEDULE,
            begin,
            NodeScheduleResult,
            f"what NodeSchedule {begin.name} asks for now",
            names.plan_queue(begin.cluster),
        )
        workflow.set_current_details(page.current_details(result))
        return result
