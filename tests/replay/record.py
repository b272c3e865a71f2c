"""Records whole lives of nodes as histories, for the replay tests: ``python -m tests.replay.record``.

Record anew only on purpose: these histories stand for the workflows that are open when a new version is deployed.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowHistory
from temporalio.testing import TimeSkippingConfig, WorkflowEnvironment

from tenon.lifecycle.messages import Disrupt, Keep, LaunchResult, Poke
from tenon.lifecycle.state import Stage
from tests.temporal_fixture import temporal_binary
from tests.workflows.fake_activities import FakeWorld
from tests.workflows.test_nodeclaim import at, called, live, newest, node
from tests.workflows.waiting import until
from worker.plugin import TenonPlugin
from workflows import names
from workflows.names import SEARCH_ATTRIBUTES
from workflows.nodeclaim import NodeClaimWorkflow

HISTORIES = Path(__file__).parent / "histories"


async def whole_life(temporal: WorkflowEnvironment, cluster: str) -> None:
    """Launch to live; later the node is empty and leaves."""
    world = FakeWorld()
    async with node(temporal, cluster, world, skip_time=False):
        handle = await live(temporal.client, cluster)
        await handle.execute_update(
            NodeClaimWorkflow.disrupt, Disrupt(command="c1", reason="Empty", only_if_empty=True)
        )
        await handle.result()


async def force_drain(temporal: WorkflowEnvironment, cluster: str) -> None:
    """An operator overtakes a drain that is stuck."""
    world = FakeWorld()
    world.hold_drain = True
    async with node(temporal, cluster, world, skip_time=False):
        handle = await live(temporal.client, cluster)
        await handle.signal(NodeClaimWorkflow.drain)
        await until(lambda: called(world, "drain node"))
        await handle.signal(NodeClaimWorkflow.force_drain)
        await handle.result()
        world.hold_drain = False


async def no_capacity(temporal: WorkflowEnvironment, cluster: str) -> None:
    """EC2 has nothing: the claim ends."""
    world = FakeWorld()
    world.launches = [LaunchResult(reason="insufficient_capacity", message="no m5.large in us-west-2a")]
    async with node(temporal, cluster, world, skip_time=False) as handle:
        await handle.result()


async def keep(temporal: WorkflowEnvironment, cluster: str) -> None:
    """A kept node refuses disruption and outlives its expiry."""
    world = FakeWorld(expire_after_seconds=24 * 3600)
    async with node(temporal, cluster, world, skip_time=False):
        handle = await live(temporal.client, cluster)
        await handle.signal(NodeClaimWorkflow.keep, Keep(until=datetime.now(UTC) + timedelta(days=3)))
        await until(lambda: called(world, "record keep"))
        await handle.execute_update(NodeClaimWorkflow.disrupt, Disrupt(command="c1", reason="Empty"))
        await temporal.fast_forward(newest(temporal.client, cluster), timedelta(days=4))
        await handle.result()


async def deleted_while_joining(temporal: WorkflowEnvironment, cluster: str) -> None:
    """The NodeClaim is deleted before its Node joined."""
    world = FakeWorld()
    async with node(temporal, cluster, world, skip_time=False) as handle:
        await until(lambda: at(newest(temporal.client, cluster), Stage.REGISTERING))
        await handle.signal(NodeClaimWorkflow.poke, Poke(claim_deleting=True))
        await handle.result()


Scenario = Callable[[WorkflowEnvironment, str], Awaitable[None]]
SCENARIOS: dict[str, Scenario] = {
    "whole-life": whole_life,
    "force-drain": force_drain,
    "no-capacity": no_capacity,
    "keep": keep,
    "deleted-while-joining": deleted_while_joining,
}


async def runs(client: Client, cluster: str) -> list[WorkflowHistory]:
    """The histories of all runs of the cluster's one node, oldest first."""
    workflow_id = names.nodeclaim_id(cluster, "default-x1")
    found: list[WorkflowHistory] = []
    run_id: str | None = (await newest(client, cluster).describe()).raw_description.workflow_execution_info.first_run_id
    while run_id:
        history = await client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()
        found.append(history)
        last = history.events[-1]
        run_id = last.workflow_execution_continued_as_new_event_attributes.new_execution_run_id
    return found


def anonymous(value: Any) -> Any:
    """A history without the names of the machine and process that it was recorded on."""
    if isinstance(value, dict):
        return {key: anonymous(part) for key, part in value.items()}
    if isinstance(value, str):
        return "recorder" if re.match(r"\d+@", value) else value
    return [anonymous(part) for part in value] if isinstance(value, list) else value


async def record() -> None:
    """Plays every scenario on a server of its own and writes its runs."""
    environment = await WorkflowEnvironment.start_time_skipping_v2(
        ts_config=TimeSkippingConfig(),
        dev_server_existing_path=temporal_binary(),
        search_attributes=list(SEARCH_ATTRIBUTES),
        dev_server_extra_args=["--dynamic-config-value", "frontend.WorkflowTimeSkippingEnabled=true"],
        plugins=[TenonPlugin()],
    )
    async with environment:
        for scenario, play in SCENARIOS.items():
            await play(environment, scenario)
            histories = [anonymous(run.to_json_dict()) for run in await runs(environment.client, scenario)]
            (HISTORIES / f"{scenario}.json").write_text(json.dumps(histories, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(record())
