"""A rollout that the replay corpus holds: an operator asks for everything, and a bad version is taken back."""

from __future__ import annotations

from functools import partial

from temporalio.testing import WorkflowEnvironment

from tests.workflows.rollout_world import ANN, World, rollout
from tests.workflows.waiting import until
from workflows import names
from workflows.rollout import MAX_HISTORY, RolloutWorkflow


async def rolled_back(temporal: WorkflowEnvironment, cluster: str) -> None:
    """A rotation is paused, continued, approved and aborted; a new version fails; a run continues as new."""
    world = World(onFailure="Rollback")
    world.bad = "new"
    async with rollout(temporal, cluster, world) as handle:
        for update in (
            RolloutWorkflow.start,
            RolloutWorkflow.approve,
            RolloutWorkflow.pause,
            RolloutWorkflow.resume,
            RolloutWorkflow.abort,
        ):
            answer = await handle.execute_update(update, ANN)
            assert answer.accepted, answer.message
        refusal = await handle.execute_update(RolloutWorkflow.rollback, ANN)
        assert not refusal.accepted
        world.newest = "new"
        await handle.signal(RolloutWorkflow.planner_started, names.plan_queue(cluster))
        await handle.signal(RolloutWorkflow.poke)
        await until(partial(world.reached, "RolledBack"))
        runs = {(await handle.describe()).run_id}
        for _ in range(MAX_HISTORY):
            looks = len(world.looks)

            async def looked(before: int = looks) -> bool:
                return len(world.looks) > before

            await handle.signal(RolloutWorkflow.poke)
            await until(looked)
            runs.add((await handle.describe()).run_id)
            if len(runs) > 1:
                return
