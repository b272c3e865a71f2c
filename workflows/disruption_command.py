"""The workflow of one disruption command that only removes empty nodes: it asks their workflows to leave."""

from __future__ import annotations

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from tenon.lifecycle.messages.base import ActivityName
    from tenon.lifecycle.messages.disruption import DisruptInput, DisruptResult
    from workflows import names
    from workflows.options import OPTIONS


@workflow.defn(name="DisruptionCommand")
class DisruptionCommandWorkflow:
    """Runs one command: asks the workflow of each candidate to leave."""

    @workflow.run
    async def run(self, begin: DisruptInput) -> DisruptResult:
        """Return which candidates accepted and which refused, and report the refusals to the disruption workflow."""
        options = OPTIONS[ActivityName.DISRUPT]
        result: DisruptResult = await workflow.execute_activity(
            ActivityName.DISRUPT.value,
            begin,
            result_type=DisruptResult,
            start_to_close_timeout=options.try_for,
            schedule_to_close_timeout=options.give_up_after,
            retry_policy=options.retry,
            summary=f"{begin.command.reason}: {len(begin.command.candidates)} nodes",
        )
        if result.refused:
            handle = workflow.get_external_workflow_handle(names.disruption_id(begin.cluster))
            await handle.signal("settled", sorted(result.refused))
        return result
