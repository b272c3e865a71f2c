"""Lives of one node that the replay corpus holds, with activities that answer as each scenario says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment

from tenon.messages.launch import LaunchResult, LaunchWait
from tenon.messages.node import Disrupt, Keep, Operator, Poke, Removal
from tenon.messages.node_steps import DrainResult
from tenon.messages.reboot import RebootOutcome, RebootReply
from tenon.node.state import NodeState, Stage
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
from tests.workflows.rebooting_world import RebootingWorld, reboot_request
from tests.workflows.waiting import until
from workflows.nodeclaim import NodeClaimWorkflow


async def whole_life(temporal: WorkflowEnvironment, cluster: str) -> None:
    """Launch to live, with quick steps that fail once. The node is not empty after all, and later it is."""
    world = FakeWorld()
    world.local_fails = True
    async with node(temporal, cluster, world, skip_time=False):
        handle = newest(temporal.client, cluster)
        await until(lambda: at(handle, Stage.REGISTERING))
        await handle.signal(NodeClaimWorkflow.poke, Poke(node_name="ip-10-0-0-1"))
        await until(lambda: at(handle, Stage.INITIALIZING))
        await handle.signal(NodeClaimWorkflow.poke, Poke(node_name="ip-10-0-0-1", node_ready=True))
        await until(lambda: at(handle, Stage.LIVE))
        world.local_fails = False
        await handle.signal(NodeClaimWorkflow.poke, Poke(node_name="ip-10-0-0-1", node_ready=True, reason="changed"))
        await rested(temporal, cluster)
        world.drains = [DrainResult(drained=True, volumes_attached=1)]
        for pods in (1, 0):
            world.pods_on_cordon = pods
            await newest(temporal.client, cluster).execute_update(
                NodeClaimWorkflow.disrupt, Disrupt(command=f"c{pods}", reason="Empty", only_if_empty=True)
            )
            if pods:
                await until(lambda: called(world, "cordon node"))
                await until(lambda: at(newest(temporal.client, cluster), Stage.LIVE))
        await handle.result()


async def refused(temporal: WorkflowEnvironment, cluster: str) -> None:
    """EC2 refuses a launch, the next has no outcome, the third succeeds. The claim is deleted before a Node joins."""
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
        await handle.signal(NodeClaimWorkflow.poke, Poke(claim_deleting=True))
        await handle.result()


async def not_managed(temporal: WorkflowEnvironment, cluster: str) -> None:
    """The NodeClaim turns out to be another controller's: the workflow ends and changes nothing more."""
    world = FakeWorld(instance=INSTANCE, registered=True, initialized=True, node_name="ip-10-0-0-1")
    world.not_managed = True
    async with node(temporal, cluster, world, skip_time=False):
        handle = newest(temporal.client, cluster)
        await until(lambda: at(handle, Stage.LIVE))
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


async def operator(temporal: WorkflowEnvironment, cluster: str) -> None:
    """An operator asks by updates: keeps the node, drains it, expires it in vain, and overtakes the drain."""
    ann = Operator(by="ann@example.com", reason="its disk is slow", ticket="OPS-12")
    world = FakeWorld()
    world.hold_drain = True
    async with node(temporal, cluster, world, skip_time=False):
        handle = await live(temporal.client, cluster)
        until_then = Keep(**ann.model_dump(), until=datetime.now(UTC) + timedelta(days=3))
        await handle.execute_update(NodeClaimWorkflow.ask_keep, until_then)
        await until(lambda: called(world, "record keep"))
        await newest(temporal.client, cluster).execute_update(NodeClaimWorkflow.ask_drain, ann)
        await until(lambda: called(world, "drain node"))
        await newest(temporal.client, cluster).execute_update(NodeClaimWorkflow.ask_expire, ann)
        await newest(temporal.client, cluster).execute_update(NodeClaimWorkflow.ask_force_drain, ann)
        await handle.result()
        world.hold_drain = False


async def no_capacity(temporal: WorkflowEnvironment, cluster: str) -> None:
    """EC2 has no capacity: the claim ends."""
    world = FakeWorld()
    world.launches = [LaunchResult(reason="insufficient_capacity", message="no m5.large in us-west-2a")]
    async with node(temporal, cluster, world, skip_time=False) as handle:
        await handle.result()


async def keep(temporal: WorkflowEnvironment, cluster: str) -> None:
    """A kept node refuses disruption and outlives its expiry. Later it asks whether it must wait, and leaves."""
    world = FakeWorld(expire_after_seconds=24 * 3600)
    async with node(temporal, cluster, world, skip_time=False):
        handle = await live(temporal.client, cluster)
        await handle.signal(NodeClaimWorkflow.keep, Keep(until=datetime.now(UTC) + timedelta(days=3)))
        await until(lambda: called(world, "record keep"))
        await handle.execute_update(NodeClaimWorkflow.disrupt, Disrupt(command="c1", reason="Empty"))
        await temporal.fast_forward(newest(temporal.client, cluster), timedelta(days=4))
        await handle.result()


async def cancelled(temporal: WorkflowEnvironment, cluster: str) -> None:
    """An operator cancels the workflow. A PodDisruptionBudget blocks the drain, until it is forced."""
    world = FakeWorld()
    world.drains = [DrainResult(remaining=1, blocked=[GUARDED])] * 3
    async with node(temporal, cluster, world, skip_time=False):
        handle = await live(temporal.client, cluster)
        await handle.cancel()
        await until(lambda: called(world, "drain node"))
        await handle.signal(NodeClaimWorkflow.force_drain)
        await handle.result()


async def never_joins(temporal: WorkflowEnvironment, cluster: str) -> None:
    """No Node joins within fifteen minutes: after a last check, the instance is terminated."""
    async with node(temporal, cluster, FakeWorld()) as handle:
        await handle.result()


async def instance_gone(temporal: WorkflowEnvironment, cluster: str) -> None:
    """EC2 ended the instance of a live node; the pods are let go of and the claim is released."""
    async with node(temporal, cluster, FakeWorld(), skip_time=False):
        handle = await live(temporal.client, cluster)
        await handle.signal(NodeClaimWorkflow.poke, Poke(instance_gone=True, reason="instance gone"))
        await handle.result()


async def taken_up_again(temporal: WorkflowEnvironment, cluster: str) -> None:
    """An earlier workflow was terminated: the node goes on from what its NodeClaim says."""
    world = FakeWorld(instance=INSTANCE, registered=True, initialized=True, node_name="ip-10-0-0-1")
    async with node(temporal, cluster, world, skip_time=False):
        handle = newest(temporal.client, cluster)
        await until(lambda: at(handle, Stage.LIVE))
        await handle.signal(NodeClaimWorkflow.expire)
        await handle.result()


async def disruption_taint(temporal: WorkflowEnvironment, cluster: str) -> None:
    """A live node loses a disruption taint that no command follows, and goes on until an operator ends it."""
    world = FakeWorld()
    async with node(temporal, cluster, world, skip_time=False):
        handle = await live(temporal.client, cluster)
        await handle.signal(NodeClaimWorkflow.poke, Poke(node_name="ip-10-0-0-1", disrupted=True, reason="disrupted"))
        await until(lambda: called(world, "remove disruption taint"))
        await until(lambda: at(newest(temporal.client, cluster), Stage.LIVE))
        await newest(temporal.client, cluster).signal(NodeClaimWorkflow.expire)
        await newest(temporal.client, cluster).result()


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


async def at_rest(temporal: WorkflowEnvironment, cluster: str, world: FakeWorld) -> Handle:
    """Bring a node to rest as usual, with the pokes that the leader sends and no other."""
    world.steps_together = True
    return await rested(temporal, cluster)


async def life_empty(temporal: WorkflowEnvironment, cluster: str) -> None:
    """A usual life: the node is empty at its end."""
    world = FakeWorld(expire_after_seconds=720 * 3600)
    async with node(temporal, cluster, world, skip_time=False):
        handle = await at_rest(temporal, cluster, world)
        await handle.execute_update(
            NodeClaimWorkflow.disrupt, Disrupt(command="e1", reason="Empty", only_if_empty=True)
        )
        await handle.result()


async def life_replaced(temporal: WorkflowEnvironment, cluster: str) -> None:
    """A usual life: a command with a replacement ends it."""
    world = FakeWorld(expire_after_seconds=720 * 3600)
    async with node(temporal, cluster, world, skip_time=False):
        handle = await at_rest(temporal, cluster, world)
        world.pods_on_cordon = 2
        await handle.execute_update(NodeClaimWorkflow.disrupt, Disrupt(command="d1", reason="Drifted"))
        await handle.result()


async def life_expired(temporal: WorkflowEnvironment, cluster: str) -> None:
    """A usual life: it ends when its time is over."""
    world = FakeWorld(expire_after_seconds=24 * 3600)
    async with node(temporal, cluster, world, skip_time=False):
        handle = await at_rest(temporal, cluster, world)
        world.pods_on_cordon = 2
        await temporal.fast_forward(handle, timedelta(days=1))
        await handle.result()


async def life_interrupted(temporal: WorkflowEnvironment, cluster: str) -> None:
    """A usual life: EC2 takes the instance back, and a replica deletes the NodeClaim."""
    world = FakeWorld(expire_after_seconds=720 * 3600)
    async with node(temporal, cluster, world, skip_time=False):
        handle = await at_rest(temporal, cluster, world)
        world.pods_on_cordon = 2
        removal = Removal(reason="spot_interrupted", actor="interruption")
        await handle.signal(NodeClaimWorkflow.poke, Poke(claim_deleting=True, removals=(removal,), reason="deleted"))
        await handle.result()


async def waiting_again(handle: Handle) -> bool:
    state: NodeState = await handle.query(NodeClaimWorkflow.status)
    return state.launch_failures == 2


async def reboots(temporal: WorkflowEnvironment, cluster: str) -> None:
    """The machine reboots after a drain. EC2 refuses its second reboot for good, and the node is replaced."""
    world = RebootingWorld()
    async with node(temporal, cluster, world, skip_time=False):
        handle = await live(temporal.client, cluster)
        await handle.execute_update(NodeClaimWorkflow.reboot, reboot_request(60.0))
        await temporal.fast_forward(handle, timedelta(seconds=6))
        await until(lambda: called(world, "check reboot"))
        await until(lambda: at(newest(temporal.client, cluster), Stage.LIVE))
        world.replies = [RebootReply(outcome=RebootOutcome.REJECTED, message="you may not")]
        await newest(temporal.client, cluster).execute_update(NodeClaimWorkflow.reboot, reboot_request(number=10))
        await handle.result()


SCENARIOS = {
    "life-empty": life_empty,
    "life-replaced": life_replaced,
    "life-expired": life_expired,
    "life-interrupted": life_interrupted,
    "whole-life": whole_life,
    "force-drain": force_drain,
    "operator": operator,
    "no-capacity": no_capacity,
    "keep": keep,
    "cancelled": cancelled,
    "never-joins": never_joins,
    "instance-gone": instance_gone,
    "taken-up-again": taken_up_again,
    "disruption-taint": disruption_taint,
    "not-managed": not_managed,
    "refused": refused,
    "expired-waits": expired_waits,
    "reboots": reboots,
}
