"""The Schedule of sweeps on a real Temporal server: how it is made, and what one sweep hands on to the next."""

from __future__ import annotations

import asyncio
import base64
import json
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from temporalio.client import Client, ScheduleActionExecutionStartWorkflow, ScheduleOverlapPolicy
from temporalio.testing import WorkflowEnvironment

from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.messages.garbage_collection import Figures, GarbageCollectionResult
from tests.activities.garbage_collection.lost import LATER, Cluster
from tests.ec2.samples import node_claim
from tests.workflows.waiting import until
from worker.runtime.leader.garbage_collection_schedule import (
    ensure_schedule,
    reconcile_schedule,
    sweep_has_left_work,
    sweep_now,
)
from worker.runtime.temporal.payload_codec import EncryptionCodec
from worker.runtime.temporal.temporal_plugin import TenonPlugin
from workflows import names
from workflows.garbage_collection import schedule_id

if TYPE_CHECKING:
    from sandbox.ec2.server import Server

pytestmark = pytest.mark.integration

NEVER = timedelta(days=36500)
"""An interval that does not end during a test: Temporal counts intervals from 1970, so that a day ends at midnight."""


async def test_the_schedule_is_made_once_and_mended(lost: Cluster, temporal: WorkflowEnvironment) -> None:
    """Made when missing, changed when the interval is another, else left alone, an operator's pause included."""
    client = temporal.client
    assert await ensure_schedule(client, lost.name, timedelta(minutes=10))
    assert not await ensure_schedule(client, lost.name, timedelta(minutes=10))
    handle = client.get_schedule_handle(schedule_id(lost.name))
    await handle.pause(note="maintenance")
    assert await ensure_schedule(client, lost.name, timedelta(minutes=5))
    schedule = (await handle.describe()).schedule
    assert [interval.every for interval in schedule.spec.intervals] == [timedelta(minutes=5)]
    assert schedule.policy.overlap is ScheduleOverlapPolicy.SKIP
    assert schedule.policy.catchup_window == timedelta(minutes=1)
    assert schedule.spec.jitter
    assert schedule.state.paused
    await sweep_now(client, lost.name)
    assert (await handle.describe()).info.num_actions == 0, "what an operator paused stays paused"
    await handle.delete()


async def test_an_encrypted_schedule_changes_with_the_key_and_not_otherwise(
    lost: Cluster, temporal: WorkflowEnvironment, tmp_path: Path
) -> None:
    """Equal inputs are different bytes once they are encrypted. A key that is removed later must not be in use."""
    file, every = tmp_path / "keys.yaml", timedelta(minutes=10)

    def keys(*names: str) -> None:
        secrets = {name: base64.b64encode(name.encode().ljust(32, b"-")).decode() for name in names}
        file.write_text(json.dumps({"keys": [{"name": name, "secret": secrets[name]} for name in names]}))

    keys("old")
    address = temporal.client.service_client.config.target_host
    client = await Client.connect(address, plugins=[TenonPlugin(codec=EncryptionCodec(file))])
    assert await ensure_schedule(client, lost.name, every)
    assert not await ensure_schedule(client, lost.name, every)
    keys("new", "old")
    assert await ensure_schedule(client, lost.name, every)
    keys("new")
    assert not await ensure_schedule(client, lost.name, every)
    keys("other")
    assert await ensure_schedule(client, lost.name, every), "the key is gone: what can be read replaces it"
    await client.get_schedule_handle(schedule_id(lost.name)).delete()


async def scheduled_sweep(client: Client, lost: Cluster, number: int) -> GarbageCollectionResult:
    """Have the Schedule start sweep ``number``, counted from 1, and return its report."""
    handle = client.get_schedule_handle(schedule_id(lost.name))
    await sweep_now(client, lost.name)

    async def done() -> bool:
        description = await handle.describe()
        return description.info.num_actions == number and not description.info.running_actions

    await until(done)
    last = (await handle.describe()).info.recent_actions[-1].action
    assert isinstance(last, ScheduleActionExecutionStartWorkflow)
    run = client.get_workflow_handle(last.workflow_id, result_type=GarbageCollectionResult)
    report: GarbageCollectionResult = await run.result()
    return report


async def test_the_next_sweep_tries_last_what_failed_before(
    lost: Cluster, temporal: WorkflowEnvironment, server: Server, ready_class: EC2NodeClass
) -> None:
    """The Schedule hands on what failed, so that leaks which always fail keep no newer one from its turn."""
    from sandbox.ec2.faults import Fault

    client = temporal.client
    await ensure_schedule(client, lost.name, NEVER)
    stuck = lost.buy("stuck").rsplit("/", 1)[-1]
    lost.late = LATER
    server.world.faults.add(Fault(action="TerminateInstances", code="UnauthorizedOperation", status=403, message="no"))
    first = await scheduled_sweep(client, lost, 1)
    assert first.figures["instance_without_claim"] == Figures(findings=1, failed=1)
    assert await sweep_has_left_work(client, lost.name)
    lost.request = lost.buyer.prepare_launch(node_claim(name="seed"), ready_class, 2)  # the sweep ended its template
    leak = lost.buy("leak").rsplit("/", 1)[-1]
    server.world.calls.clear()
    second = await scheduled_sweep(client, lost, 2)
    assert second.figures["instance_without_claim"] == Figures(findings=2, ended=2)
    assert not await sweep_has_left_work(client, lost.name)
    assert ended_in_order(server) == [leak, stuck]
    await client.get_schedule_handle(schedule_id(lost.name)).delete()


def ended_in_order(server: Server) -> list[str]:
    """The instances that were terminated, in the order of the calls."""
    calls = server.world.calls.listing("TerminateInstances")
    return [value for call in calls for key, value in call["parameters"].items() if key.startswith("InstanceId")]


async def test_a_workflow_that_ignores_signals_loses_its_instance_after_half_an_hour(
    lost: Cluster, temporal: WorkflowEnvironment
) -> None:
    """The Schedule hands on from sweep to sweep since when an instance is left to its workflow."""
    lost.buy("deaf-0")
    await lost.start("deaf-0", deaf=True)
    await lost.until_open({"deaf-0"})
    client = temporal.client
    await ensure_schedule(client, lost.name, NEVER)
    handle = client.get_schedule_handle(schedule_id(lost.name))

    lost.late = timedelta(minutes=5)
    first = await scheduled_sweep(client, lost, 1)
    assert len(first.left_since) == 1
    assert first.figures["workflow_without_claim"].ended == 1
    lost.late = timedelta(minutes=20)
    assert (await scheduled_sweep(client, lost, 2)).left_since == first.left_since
    assert lost.alive() == {"deaf-0"}
    lost.late = timedelta(minutes=36)
    assert (await scheduled_sweep(client, lost, 3)).figures["instance_without_claim"] == Figures(findings=1, ended=1)
    assert lost.alive() == set()
    await handle.delete()
    await client.get_workflow_handle(names.nodeclaim_id(lost.name, "deaf-0")).terminate()


async def test_a_leader_sweeps_once_as_it_starts(lost: Cluster, temporal: WorkflowEnvironment) -> None:
    """After an outage nothing waits for the next interval."""
    lost.buy("orphan-0")
    lost.late = LATER
    keeping = asyncio.create_task(reconcile_schedule(temporal.client, lost.name, timedelta(days=1)))

    async def clean() -> bool:
        return not lost.alive()

    await until(clean)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    await temporal.client.get_schedule_handle(schedule_id(lost.name)).delete()
