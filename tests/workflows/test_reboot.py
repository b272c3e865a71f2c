"""Reboots in a node's workflow on a real Temporal server that skips the waits."""

from __future__ import annotations

from datetime import timedelta

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment

from tenon.apis.reasons import Reason
from tenon.messages.node import RebootAnswer
from tenon.messages.reboot import RebootCheck, RebootOutcome, RebootReply, RebootResult
from tenon.node.state import NodeState, Stage
from tests.workflows.node_workflow import Handle, at, called, called_times, live, newest, node
from tests.workflows.rebooting_world import RebootingWorld, reboot_request
from tests.workflows.waiting import until
from workflows.nodeclaim import NodeClaimWorkflow

pytestmark = pytest.mark.integration
REFUSED = RebootReply(outcome=RebootOutcome.REFUSED, message="EC2 is busy")


async def ask(handle: Handle, request: object) -> RebootAnswer:
    answer: RebootAnswer = await handle.execute_update(
        "reboot",
        request,
        result_type=RebootAnswer,
    )
    return answer


async def rebooted(handle: Handle) -> bool:
    state: NodeState = await handle.query(NodeClaimWorkflow.status)
    return state.stage is Stage.LIVE and bool(state.reboots)


async def test_n15_162_a_node_reboots_and_is_live_again(temporal: WorkflowEnvironment, cluster: str) -> None:
    world = RebootingWorld()
    async with node(temporal, cluster, world, skip_time=False):
        handle = await live(temporal.client, cluster)
        request = reboot_request(drain=60.0)
        assert (await ask(handle, request)).accepted
        await temporal.fast_forward(handle, timedelta(seconds=6))
        await until(lambda: rebooted(newest(temporal.client, cluster)))
        assert (await ask(newest(temporal.client, cluster), reboot_request(number=1))).accepted
    steps = ["fence node", "drain for reboot", "record boot ID", "reboot instance", "check reboot", "initialize node"]
    assert [call for call in dict.fromkeys(world.calls) if call in steps] == ["initialize node", *steps[:-1]]
    assert world.calls.count("bind pods") == 1


async def test_n15_160_a_reboot_that_ec2_refuses_for_five_minutes_ends_the_node(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    world = RebootingWorld()
    world.replies = [REFUSED]
    async with node(temporal, cluster, world, skip_time=False):
        handle = await live(temporal.client, cluster)
        await ask(handle, reboot_request())
        await until(lambda: called(world, "reboot instance"))
        await temporal.fast_forward(handle, timedelta(minutes=4))
        assert world.failure is None
        await temporal.fast_forward(handle, timedelta(minutes=2))
        life = await handle.result()
    assert world.failure is not None
    assert (world.failure.result, life.reason) == (RebootResult.PROVIDER_ERROR, Reason.UNHEALTHY)
    assert "EC2 did not accept it within 5m: EC2 is busy" in life.detail


async def test_n15_163_a_machine_that_stays_away_for_20_minutes_ends_the_node(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """Also if somebody else began to reboot it: this worker takes over 19 minutes after EC2 accepted."""
    world = RebootingWorld()
    world.checks = [RebootCheck()]
    async with node(temporal, cluster, world, skip_time=False):
        handle = await live(temporal.client, cluster)
        world.issued_at = await temporal.get_current_time(handle) - timedelta(minutes=19)
        await ask(handle, reboot_request())
        await until(lambda: called(world, "check reboot"))
        assert await at(newest(temporal.client, cluster), Stage.REBOOTING)
        await temporal.fast_forward(newest(temporal.client, cluster), timedelta(minutes=2))
        life = await handle.result()
    assert (world.failure and world.failure.result, life.reason) == (RebootResult.RECOVERY_TIMEOUT, Reason.UNHEALTHY)
    assert "reboot instance" not in world.calls


@pytest.mark.parametrize("booted", [True, False], ids=["EC2 got it", "EC2 did not get it"])
async def test_n15_159_a_lost_answer_is_asked_again_only_if_the_machine_runs_on(
    temporal: WorkflowEnvironment, cluster: str, booted: bool
) -> None:
    world = RebootingWorld()
    world.replies = [ApplicationError("the worker died"), RebootReply(outcome=RebootOutcome.ACCEPTED)]
    async with node(temporal, cluster, world, skip_time=False):
        handle = await live(temporal.client, cluster)
        await ask(handle, reboot_request())
        await until(lambda: called(world, "check reboot"))
        await temporal.fast_forward(handle, timedelta(seconds=100))
        assert world.calls.count("reboot instance") == 1
        world.settling = RebootCheck(rebooted=booted, ready=True)
        await temporal.fast_forward(handle, timedelta(seconds=60))
        await until(lambda: rebooted(newest(temporal.client, cluster)))
    assert world.calls.count("reboot instance") == (1 if booted else 2)


async def test_n15_167_a_claim_that_is_deleted_meanwhile_leaves(temporal: WorkflowEnvironment, cluster: str) -> None:
    world = RebootingWorld()
    world.checks = [RebootCheck()]
    async with node(temporal, cluster, world, skip_time=False):
        handle = await live(temporal.client, cluster)
        await ask(handle, reboot_request())
        await until(lambda: called_times(world, "check reboot", 1))
        await handle.signal(NodeClaimWorkflow.drain)
        life = await handle.result()
    assert (life.reason, world.failure) == ("drain", None)
