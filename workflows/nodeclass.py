"""The workflow, one per EC2NodeClass, that resolves its subnets, security groups, images and instance profile."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from tenon.ec2.nodeclass import page
    from tenon.messages.base import ActivityName
    from tenon.messages.nodeclass import NodeClassInput, NodeClassResult
    from workflows import activity_calls
    from workflows.continuing import continue_as_new, must_continue_as_new

MAX_HISTORY = 500
"""The number of history events after which a run continues as new."""
REFRESH, REFRESH_UNREADY, REFRESH_DELETING = timedelta(hours=6), timedelta(minutes=10), timedelta(minutes=1)
"""The refresh intervals of a class that is ready, of one that is not ready, and of one that is being deleted. The
leader looks more often, and pokes the workflow when something has changed
(`worker/controllers/nodeclass/refresh.py`), because Temporal Cloud bills each look of the workflow."""


@workflow.defn(name="NodeClass")
class NodeClassWorkflow:
    """Resolves the class, then again after each poke or refresh interval. Ends when the class is gone."""

    def __init__(self) -> None:
        self.changed = False
        self.result: NodeClassResult | None = None

    @workflow.run
    async def run(self, begin: NodeClassInput) -> NodeClassResult:
        """Run until the class is gone, and return the last result."""
        while True:
            self.changed = False
            summary = f"{begin.name}: subnets, security groups, images, instance profile"
            self.result = await activity_calls.start(ActivityName.RESOLVE_NODECLASS, begin, NodeClassResult, summary)
            if not self.result.exists:
                return self.result
            next_at = workflow.now() + _pause(self.result)
            workflow.set_current_details(page.current_details(begin.name, self.result, next_at))
            try:
                await workflow.wait_condition(
                    lambda: self.changed,
                    timeout=_pause(self.result),
                    timeout_summary="Then Tenon resolves the EC2NodeClass again",
                )
            except TimeoutError:
                self.changed = True
            if must_continue_as_new(MAX_HISTORY):
                await workflow.wait_condition(workflow.all_handlers_finished)
                continue_as_new(page.first_input(begin.cluster, begin.name))

    @workflow.signal(description="Resolves the EC2NodeClass at once. Tenon sends it when the class changes. No input.")
    def poke(self) -> None:
        """Resolve the class again, because it changed."""
        self.changed = True


def _pause(result: NodeClassResult) -> timedelta:
    if result.deleting:
        return REFRESH_DELETING
    return REFRESH if result.ready else REFRESH_UNREADY
