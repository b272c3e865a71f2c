"""Records histories for the replay tests: ``python -m tests.replay.record SCENARIO ...``.

Some scenarios are played: one node, with a cluster and an EC2 of activities that answer at will. The others happen on a
real sandbox, and all its workflows are recorded. What was recorded before is left as it is, for these histories stand
for the workflows that are open when a new version is deployed; ``--again`` records again all the same.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowHistory
from temporalio.exceptions import ApplicationError
from temporalio.testing import TimeSkippingConfig, WorkflowEnvironment

from activities.kubernetes.client import Kube
from sandbox.cluster import Sandbox
from tenon.lifecycle.messages.launch import LaunchResult, LaunchWait
from tenon.lifecycle.messages.node import Disrupt, DrainResult, Keep, Poke
from tenon.lifecycle.state import NodeState, Stage
from tests.e2e.worker_process import WorkerProcess
from tests.replay import sandbox_scenarios
from tests.temporal_fixture import temporal_binary
from tests.workflows.fake_activities import INSTANCE, FakeWorld
from tests.workflows.guarded_node import GUARDED
from tests.workflows.node_workflow import (
    Handle,
    at,
    blocked,
    called,
    called_times,
    live,
    newest,
    node,
    rested,
    waits_for_budgets,
)
from tests.workflows.waiting import until
from worker.runtime.temporal_plugin import TenonPlugin
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


async def local_steps(temporal: WorkflowEnvironment, cluster: str) -> None:
    """A life whose quick steps are local activities. One of them fails once, and runs as an activity."""
    world = FakeWorld()
    async with node(temporal, cluster, world, skip_time=False):
        handle = newest(temporal.client, cluster)
        await until(lambda: at(handle, Stage.REGISTERING))
        await handle.signal(NodeClaimWorkflow.poke, Poke(node_name="ip-10-0-0-1"))
        await until(lambda: at(handle, Stage.INITIALIZING))
        world.local_fails = True
        await handle.signal(NodeClaimWorkflow.poke, Poke(node_name="ip-10-0-0-1", node_ready=True))
        await until(lambda: at(handle, Stage.LIVE))
        await handle.signal(NodeClaimWorkflow.expire)
        await handle.result()


async def rests_after_a_minute(temporal: WorkflowEnvironment, cluster: str) -> None:
    """The run that starts a node continues as new a minute later. A change of the Node interrupts the minute."""
    async with node(temporal, cluster, FakeWorld(), skip_time=False):
        handle = await live(temporal.client, cluster)
        await handle.signal(NodeClaimWorkflow.poke, Poke(node_name="ip-10-0-0-1", node_ready=True, reason="changed"))
        await rested(temporal, cluster)
        await handle.signal(NodeClaimWorkflow.expire)
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


async def cancelled(temporal: WorkflowEnvironment, cluster: str) -> None:
    """An operator cancels the workflow while its drain is blocked by a PodDisruptionBudget, and force comes to help."""
    world = FakeWorld()
    world.drains = [DrainResult(remaining=1, blocked=[GUARDED])] * 3
    async with node(temporal, cluster, world, skip_time=False):
        handle = await live(temporal.client, cluster)
        await handle.cancel()
        await until(lambda: called(world, "drain node"))
        await handle.signal(NodeClaimWorkflow.force_drain)
        await handle.result()


async def not_empty_after_all(temporal: WorkflowEnvironment, cluster: str) -> None:
    """A pod came during the time to live: the node stays, later expires."""
    world = FakeWorld(expire_after_seconds=24 * 3600)
    world.pods_on_cordon = 1
    async with node(temporal, cluster, world, skip_time=False):
        handle = await live(temporal.client, cluster)
        await handle.execute_update(
            NodeClaimWorkflow.disrupt, Disrupt(command="c1", reason="Empty", only_if_empty=True)
        )
        await until(lambda: called(world, "cordon node"))
        await until(lambda: at(newest(temporal.client, cluster), Stage.LIVE))
        await temporal.fast_forward(newest(temporal.client, cluster), timedelta(days=2))
        await handle.result()


async def never_joins(temporal: WorkflowEnvironment, cluster: str) -> None:
    """Nobody joins within fifteen minutes; a last look, and the instance is ended."""
    async with node(temporal, cluster, FakeWorld()) as handle:
        await handle.result()


async def instance_gone(temporal: WorkflowEnvironment, cluster: str) -> None:
    """EC2 ended the instance of a live node; the pods are let go of and the claim is released."""
    async with node(temporal, cluster, FakeWorld(), skip_time=False):
        handle = await live(temporal.client, cluster)
        await handle.signal(NodeClaimWorkflow.poke, Poke(instance_gone=True, reason="instance gone"))
        await handle.result()


async def taken_up_again(temporal: WorkflowEnvironment, cluster: str) -> None:
    """The workflow before was terminated: the life goes on from what the claim says."""
    world = FakeWorld(instance=INSTANCE, registered=True, initialized=True, node_name="ip-10-0-0-1")
    async with node(temporal, cluster, world, skip_time=False):
        handle = newest(temporal.client, cluster)
        await until(lambda: at(handle, Stage.LIVE))
        await handle.signal(NodeClaimWorkflow.expire)
        await handle.result()


async def disruption_taint(temporal: WorkflowEnvironment, cluster: str) -> None:
    """Somebody taints a live node; the taint is removed, and the node goes on until an operator ends it."""
    world = FakeWorld()
    async with node(temporal, cluster, world, skip_time=False):
        handle = await live(temporal.client, cluster)
        await handle.signal(NodeClaimWorkflow.poke, Poke(node_name="ip-10-0-0-1", disrupted=True, reason="disrupted"))
        await until(lambda: called(world, "remove disruption taint"))
        await until(lambda: at(newest(temporal.client, cluster), Stage.LIVE))
        await newest(temporal.client, cluster).signal(NodeClaimWorkflow.expire)
        await newest(temporal.client, cluster).result()


async def not_managed(temporal: WorkflowEnvironment, cluster: str) -> None:
    """The NodeClaim turns out to be another controller's: the workflow ends and does nothing."""
    world = FakeWorld()
    async with node(temporal, cluster, world, skip_time=False):
        handle = await live(temporal.client, cluster)
        await handle.signal(NodeClaimWorkflow.poke, Poke(not_managed=True, reason="not managed"))
        await handle.result()
        assert not await called(world, "cordon node")


async def expired_waits(temporal: WorkflowEnvironment, cluster: str) -> None:
    """An expired node waits for the budgets of its NodePool, asks again, and a command removes it."""
    world = FakeWorld(expire_after_seconds=24 * 3600)
    world.expired_waits = True
    async with node(temporal, cluster, world, skip_time=False):
        handle = await live(temporal.client, cluster)
        for times in (1, 2):
            await temporal.fast_forward(newest(temporal.client, cluster), timedelta(days=1))
            await until(partial(called_times, world, "check expiration", times))
            await until(lambda: waits_for_budgets(newest(temporal.client, cluster)))
        await newest(temporal.client, cluster).execute_update(
            NodeClaimWorkflow.disrupt, Disrupt(command="e1", reason="expired")
        )
        await handle.result()


async def expired_leaves(temporal: WorkflowEnvironment, cluster: str) -> None:
    """An expired node asks, and leaves at once."""
    async with node(temporal, cluster, FakeWorld(expire_after_seconds=24 * 3600), skip_time=False):
        handle = await live(temporal.client, cluster)
        await temporal.fast_forward(handle, timedelta(days=1))
        await handle.result()


Scenario = Callable[[WorkflowEnvironment, str], Awaitable[None]]


async def refused(temporal: WorkflowEnvironment, cluster: str) -> None:
    """EC2 refuses a launch, the next one has no outcome, the third succeeds; an operator ends the node."""
    world = FakeWorld()
    wait = LaunchWait(reason="Unauthorized", message="CreateFleet: you may not")
    world.launches = [LaunchResult(waits=wait), ApplicationError("no worker served it", non_retryable=True)]
    async with node(temporal, cluster, world, skip_time=False):
        handle = newest(temporal.client, cluster)
        await until(lambda: blocked(handle))
        await temporal.fast_forward(handle, timedelta(seconds=5))
        await until(lambda: called_times(world, "launch instance", 2))
        await until(lambda: waiting_again(handle))
        await temporal.fast_forward(handle, timedelta(seconds=10))
        await until(lambda: at(handle, Stage.REGISTERING))
        await handle.signal(NodeClaimWorkflow.drain)
        await handle.result()


async def waiting_again(handle: Handle) -> bool:
    state: NodeState = await handle.query(NodeClaimWorkflow.status)
    return state.launch_failures == 2


SCENARIOS: dict[str, Scenario] = {
    "whole-life": whole_life,
    "local-steps": local_steps,
    "rests-after-a-minute": rests_after_a_minute,
    "force-drain": force_drain,
    "no-capacity": no_capacity,
    "keep": keep,
    "deleted-while-joining": deleted_while_joining,
    "cancelled": cancelled,
    "not-empty-after-all": not_empty_after_all,
    "never-joins": never_joins,
    "instance-gone": instance_gone,
    "taken-up-again": taken_up_again,
    "disruption-taint": disruption_taint,
    "not-managed": not_managed,
    "refused": refused,
    "expired-waits": expired_waits,
    "expired-leaves": expired_leaves,
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


async def play(wanted: Sequence[str]) -> None:
    """Plays scenarios on a server of its own and writes the runs of their nodes."""
    environment = await WorkflowEnvironment.start_time_skipping_v2(
        ts_config=TimeSkippingConfig(),
        dev_server_existing_path=temporal_binary(),
        search_attributes=list(SEARCH_ATTRIBUTES),
        dev_server_extra_args=["--dynamic-config-value", "frontend.WorkflowTimeSkippingEnabled=true"],
        plugins=[TenonPlugin()],
    )
    async with environment:
        for scenario in wanted:
            await SCENARIOS[scenario](environment, scenario)
            histories = [anonymous(run.to_json_dict()) for run in await runs(environment.client, scenario)]
            write(played(scenario), histories)


async def happen(wanted: Sequence[str]) -> None:
    """Lets scenarios happen, each on a sandbox of its own, and writes the runs of all workflows there."""
    for scenario in wanted:
        with (
            tempfile.TemporaryDirectory() as folder,
            Sandbox.start(folder, boot_delay=1.0, on_progress=print) as sandbox,
        ):
            worker = WorkerProcess(sandbox)
            worker.start()
            kube = await Kube.connect(str(sandbox.kubeconfig))
            client = await Client.connect(sandbox.temporal_address, plugins=[TenonPlugin()])
            try:
                await sandbox_scenarios.SCENARIOS[scenario](sandbox_scenarios.Scene(sandbox, worker, kube, client))
                found: dict[str, list[Any]] = {}
                async for execution in client.list_workflows(f"TaskQueue = '{names.task_queue(sandbox.cluster_name)}'"):
                    handle = client.get_workflow_handle(execution.id, run_id=execution.run_id)
                    history = anonymous((await handle.fetch_history()).to_json_dict())
                    found.setdefault(execution.id, []).append(history)
                write(happened(scenario), dict(sorted(found.items())))
            finally:
                await kube.close()
                worker.stop()


def played(scenario: str) -> Path:
    """Where the runs of a played scenario's node are."""
    return HISTORIES / f"{scenario}.json"


def happened(scenario: str) -> Path:
    """Where the runs of all workflows of a sandbox are, by workflow id."""
    return HISTORIES / "sandbox" / f"{scenario}.json"


def write(path: Path, content: Any) -> None:
    """Writes one recording."""
    path.write_text(json.dumps(content, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"recorded {path}")


def main() -> None:
    """The command line."""
    everything = [*SCENARIOS, *sandbox_scenarios.SCENARIOS]
    parser = argparse.ArgumentParser(prog="python -m tests.replay.record", description="Record histories.")
    parser.add_argument("scenario", nargs="*", default=everything, choices=everything)
    parser.add_argument("--again", action="store_true", help="record again what is recorded already")
    given = parser.parse_args()
    to_play = [s for s in given.scenario if s in SCENARIOS and (given.again or not played(s).exists())]
    to_happen = [
        s for s in given.scenario if s in sandbox_scenarios.SCENARIOS and (given.again or not happened(s).exists())
    ]
    if to_play:
        asyncio.run(play(to_play))
    if to_happen:
        asyncio.run(happen(to_happen))


if __name__ == "__main__":
    main()
