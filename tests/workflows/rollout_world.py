"""A fleet of 60 nodes that follows the workflow of a rollout, with a leader that decides as the real one does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any

from temporalio import activity
from temporalio.client import Client, WorkflowHandle
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from tenon.apis.noderollout import NodeRolloutSpec
from tenon.messages.base import ActivityName
from tenon.messages.rollout import (
    AdvanceRolloutInput,
    PoolProgress,
    RolloutAdvance,
    RolloutOperator,
    RolloutWritten,
    WriteRolloutInput,
)
from tenon.rollout import page
from tenon.rollout.gates import GateResult, GateVerdict
from tenon.rollout.nodes import PoolNode
from tenon.rollout.progress import Observation, advance, look_again
from tests.workflows.waiting import until
from workflows import names
from workflows.rollout import RolloutWorkflow

Handle = WorkflowHandle[Any, None]
ANN = RolloutOperator(pool="web", by="ann", reason="a test")


class World:
    """A leader, and an API server with the status that it follows: nodes of a wave are replaced at once."""

    def __init__(self, **spec: Any) -> None:
        strategy = {"waves": ["1", "10%", "100%"], "soak": "10m"}
        self.spec = NodeRolloutSpec.model_validate({"strategy": strategy, **spec})
        self.newest = "old"
        self.bad = ""
        self.exists = True
        self.looks: list[datetime] = []
        self.events: list[str] = []
        """The reasons of the events, in their order."""
        self.status = PoolProgress(pool="web")
        self.nodes = [self._node(f"web-{place}", "old") for place in range(60)]

    @staticmethod
    def _node(name: str, revision: str) -> PoolNode:
        return PoolNode(name, "a", datetime(2026, 1, 1, tzinfo=UTC), revision)

    @activity.defn(name=ActivityName.ADVANCE_ROLLOUT)
    async def advance(self, advance_input: AdvanceRolloutInput) -> RolloutAdvance:
        if not self.exists:
            return RolloutAdvance(exists=False)
        now = activity.info().scheduled_time
        self.looks.append(now)
        failed = any(node.revision == self.bad for node in self.nodes)
        gates = [GateResult("pods ready", GateVerdict.FAIL if failed else GateVerdict.PASS, "web-1 of NodePool | web")]
        before = advance_input.pools[0] if advance_input.pools else PoolProgress(pool="web")
        progress = advance(before, self.spec, Observation(self.newest, self.nodes, gates), now)
        written = progress == self.status and bool(progress.current)
        return RolloutAdvance(uid="u", pools=[progress], written=written, look_again=look_again(progress, self.spec))

    @activity.defn(name=ActivityName.WRITE_ROLLOUT)
    async def write(self, write_input: WriteRolloutInput) -> RolloutWritten:
        (self.status,) = write_input.pools
        self.events += [announcement.reason for announcement in write_input.announcements]
        revision = self.status.target if self.status.phase == "Progressing" else self.status.current
        self.nodes = [
            self._node(f"{node.claim}-{revision}", revision) if node.claim in self.status.claims else node
            for node in self.nodes
        ]
        return RolloutWritten()

    def versions(self) -> dict[str, int]:
        revisions = [node.revision for node in self.nodes]
        return {revision: revisions.count(revision) for revision in sorted(set(revisions))}

    async def reached(self, phase: str) -> bool:
        return self.status.phase == phase and bool(self.status.current)


@asynccontextmanager
async def rollout(
    temporal: WorkflowEnvironment, cluster: str, world: World, client: Client | None = None
) -> AsyncIterator[Handle]:
    """A workflow whose fleet is settled on the version "old". ``client``: if its workers need another one."""
    client = client or temporal.client
    queue = names.task_queue(cluster)
    async with (
        Worker(client, task_queue=queue, workflows=[RolloutWorkflow], activities=[world.write]),
        Worker(client, task_queue=names.plan_queue(cluster), activities=[world.advance]),
    ):
        handle = await client.start_workflow(
            RolloutWorkflow.run,
            page.first_input(cluster, "careful"),
            id=names.rollout_id(cluster, "careful"),
            task_queue=queue,
        )
        await until(partial(world.reached, "Settled"))
        yield handle
        world.exists = False
        await handle.signal(RolloutWorkflow.poke)
        await handle.result()


async def changed(handle: Handle, world: World) -> None:
    world.newest = "new"
    await handle.signal(RolloutWorkflow.poke)
    await until(partial(world.reached, "Progressing"))
