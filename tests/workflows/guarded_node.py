"""A node whose drain a PodDisruptionBudget blocks."""

from __future__ import annotations

from datetime import datetime, timedelta

from temporalio import activity

from tenon.messages.base import ActivityName
from tenon.messages.node_steps import BlockedPods, CordonInput, CordonResult, DrainInput, DrainResult
from tenon.node.state import NodeState
from tests.workflows.fake_activities import FakeWorld
from tests.workflows.node_workflow import Handle
from workflows.nodeclaim import NodeClaimWorkflow

BUDGET = "pod default/web-0 cannot be evicted: PodDisruptionBudget default/web allows no eviction"


GUARDED = BlockedPods(
    pods=("default/web-0",),
    why="cannot be evicted: PodDisruptionBudget default/web allows no eviction",
    budgets=("default/web",),
)


class Guarded(FakeWorld):
    """A node whose only pod is guarded by a budget, until the grace period of the node is over, if it has one."""

    def __init__(self, grace: timedelta | None = None) -> None:
        super().__init__()
        self.grace = grace
        self.tries: list[datetime] = []
        self.relaxed = False

    @activity.defn(name=ActivityName.CORDON)
    async def cordon(self, cordon_input: CordonInput) -> CordonResult:
        force_at = activity.info().scheduled_time + self.grace if self.grace is not None else None
        return CordonResult(node_name=cordon_input.node_name, pods=1, force_at=force_at)

    @activity.defn(name=ActivityName.DRAIN)
    async def drain(self, drain_input: DrainInput) -> DrainResult:
        self._called(ActivityName.DRAIN, drain_input)
        now = activity.info().scheduled_time
        self.tries.append(now)
        over = (
            drain_input.force_at is not None
            and now + timedelta(seconds=drain_input.budget_seconds) >= drain_input.force_at
        )
        if over or self.relaxed or drain_input.force:
            return DrainResult(drained=True, evicted=1)
        return DrainResult(remaining=1, blocked=[GUARDED], next_force_at=drain_input.force_at)


async def state_of(handle: Handle) -> NodeState:
    return await handle.query(NodeClaimWorkflow.status)
