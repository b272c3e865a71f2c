"""A node's workflow on a real Temporal server, with a cluster and an EC2 played by activities."""

from __future__ import annotations

from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from temporalio import activity
from temporalio.client import WorkflowExecutionStatus, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from tenon.apis.reasons import camel_case
from tenon.messages.base import ActivityName, ClaimRef, ErrorType
from tenon.messages.launch import LaunchInput, LaunchResult, LaunchWait
from tenon.messages.node import Disrupt, DisruptAnswer, Keep, Operator, OperatorAnswer, Poke, Removal
from tenon.messages.node_steps import BlockedPods, DrainResult, TerminateInput, TerminateResult
from tenon.node.leaving_stages import BLOCKED_RETRY
from tenon.node.state import NodeClaimInput, NodeState, Stage
from tenon.node.timeline import why_blocked
from tests.workflows.fake_activities import INSTANCE, FakeWorld
from tests.workflows.node_workflow import (
    Handle,
    at,
    blocked,
    called,
    called_times,
    live,
    lost_answer,
    newest,
    node,
    rested,
    stage,
)
from tests.workflows.waiting import until
from workflows import names
from workflows.nodeclaim import NodeClaimWorkflow
from workflows.options import CORDONING, DRAINING, ENDING, TRIES

pytestmark = pytest.mark.integration


async def test_whole_life_is_a_runbook_within_its_budget(temporal: WorkflowEnvironment, cluster: str) -> None:
    """Launch to release, one activity a stage; at most 110 events over both runs, a resting run at most 10."""
    world = FakeWorld()
    async with node(temporal, cluster, world, skip_time=False) as first:
        handle = await rested(temporal, cluster)
        resting = [event async for event in handle.fetch_history_events()]
        assert len(resting) <= 10
        assert not any(event.HasField("upsert_workflow_search_attributes_event_attributes") for event in resting), (
            "the first run wrote all that can be searched for"
        )
        answer = await handle.execute_update(
            NodeClaimWorkflow.disrupt, Disrupt(command="c1", reason="Empty", only_if_empty=True)
        )
        assert answer == DisruptAnswer(accepted=True, price=0.096)
        life = await handle.result()
    assert world.calls == [
        "prepare launch",
        "launch instance",
        "register node",
        "initialize node",
        "bind pods",
        "cordon node",
        "drain node",
        "terminate instance",
        "release node",
    ]
    assert (life.reason, life.instance_id, life.pods_bound) == ("Empty", INSTANCE.id, 2)
    runs = [first.first_execution_run_id, (await handle.describe()).run_id]
    events = 0
    for run in runs:
        run_handle = temporal.client.get_workflow_handle(handle.id, run_id=run)
        events += len([event async for event in run_handle.fetch_history_events()])
    assert events <= 110


async def test_a_node_that_leaves_at_once_has_one_run(temporal: WorkflowEnvironment, cluster: str) -> None:
    """Its run would continue as new a minute after it became live. The start said all that was known before the launch,
    so the first attributes that the run writes are those of its instance."""
    async with node(temporal, cluster, FakeWorld(), skip_time=False) as first:
        handle = await live(temporal.client, cluster)
        await handle.signal(NodeClaimWorkflow.drain)
        await handle.result()
    assert (await handle.describe()).run_id == first.first_execution_run_id
    written = [
        set(event.upsert_workflow_search_attributes_event_attributes.search_attributes.indexed_fields)
        async for event in handle.fetch_history_events()
        if event.HasField("upsert_workflow_search_attributes_event_attributes")
    ]
    assert names.INSTANCE_TYPE.name in written[0]


async def test_quick_steps_are_local_activities(temporal: WorkflowEnvironment, cluster: str) -> None:
    """They have no task of their own. Initializing a node is quick if it has no planned pods to bind."""
    world = FakeWorld(planned_pods=0)
    async with node(temporal, cluster, world, skip_time=False) as first:
        await live(temporal.client, cluster)
        run = temporal.client.get_workflow_handle(first.id, run_id=first.first_execution_run_id)
        tasks = {
            event.activity_task_scheduled_event_attributes.activity_type.name
            async for event in run.fetch_history_events()
        } - {""}
        await newest(temporal.client, cluster).terminate()
    assert set(world.local_calls) == {"register node", "initialize node"}
    assert tasks == {"prepare launch", "launch instance"}


async def test_a_quick_step_that_fails_runs_as_an_activity(temporal: WorkflowEnvironment, cluster: str) -> None:
    world = FakeWorld(planned_pods=0)
    world.local_fails = True
    async with node(temporal, cluster, world, skip_time=False):
        await live(temporal.client, cluster)
        await newest(temporal.client, cluster).terminate()
    # Temporal runs a local activity again if the task that it is part of is lost.
    assert set(world.local_calls) == {"register node", "initialize node"}
    assert world.calls[2:4] == ["register node", "initialize node"]


async def test_nc07_the_workflow_of_a_foreign_claim_ends_at_the_first_refusing_step(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """Nothing more is done to the node."""
    world = FakeWorld(expire_after_seconds=24 * 3600)
    async with node(temporal, cluster, world, skip_time=False):
        handle = await live(temporal.client, cluster)
        world.not_managed = True
        await handle.signal(NodeClaimWorkflow.expire)
        life = await handle.result()
    assert world.calls[-1] == "cordon node"
    assert "another controller's" in life.timeline[-1].text


async def test_expiry_comes_by_itself_after_thirty_days(temporal: WorkflowEnvironment, cluster: str) -> None:
    """DIS-80: at creation + expireAfter the node leaves; the timer is Temporal's."""
    world = FakeWorld(expire_after_seconds=30 * 24 * 3600)
    async with node(temporal, cluster, world, skip_time=False):
        handle = await live(temporal.client, cluster)
        await temporal.fast_forward(handle, timedelta(days=31))
        life = await handle.result()
    assert life.reason == "expired"
    assert life.lived_seconds >= 29 * 24 * 3600


async def test_keep_puts_expiry_off(temporal: WorkflowEnvironment, cluster: str) -> None:
    """A kept node refuses disruption and outlives its expiry."""
    world = FakeWorld(expire_after_seconds=24 * 3600)
    async with node(temporal, cluster, world, skip_time=False):
        handle = await live(temporal.client, cluster)
        kept_until = datetime.now(UTC) + timedelta(days=3)
        await handle.signal(NodeClaimWorkflow.keep, Keep(until=kept_until))
        await until(lambda: called(world, "record keep"))
        answer = await handle.execute_update(NodeClaimWorkflow.disrupt, Disrupt(command="c1", reason="Empty"))
        assert not answer.accepted
        assert "kept until" in answer.why
        await temporal.fast_forward(newest(temporal.client, cluster), timedelta(days=4))
        life = await handle.result()
    assert life.reason == "expired"
    assert life.timeline[-1].at >= kept_until


async def test_not_empty_after_all_stays(temporal: WorkflowEnvironment, cluster: str) -> None:
    """DIS-46: a pod that arrived since the decision keeps its node."""
    world = FakeWorld()
    world.pods_on_cordon = 1
    async with node(temporal, cluster, world, skip_time=False):
        handle = await live(temporal.client, cluster)
        await handle.execute_update(
            NodeClaimWorkflow.disrupt, Disrupt(command="c1", reason="Empty", only_if_empty=True)
        )
        await until(lambda: called(world, "cordon node"))
        await until(lambda: at(newest(temporal.client, cluster), Stage.LIVE))
        assert "drain node" not in world.calls
        await handle.signal(NodeClaimWorkflow.force_drain)
        await handle.result()


INTERRUPTED = Removal(
    reason="spot_interrupted", detail="EC2 interrupts the spot instance", actor="controller interruption"
)
PERSON = "an operator, by a Temporal signal"


@pytest.mark.parametrize(
    ("signal", "argument", "why"),
    [
        (
            "drain",
            Operator(by="ann@laptop", reason="its disk is slow", ticket="OPS-12"),
            Removal(reason="drain", detail="its disk is slow, OPS-12", actor="ann@laptop"),
        ),
        ("drain", None, Removal(reason="drain", actor=PERSON)),
        ("force_drain", None, Removal(reason="force_drain", actor=PERSON)),
        ("expire", Operator(by="ann@laptop"), Removal(reason="expired", actor="ann@laptop")),
        ("poke", Poke(claim_deleting=True, removals=(INTERRUPTED,)), INTERRUPTED),
    ],
    ids=["tenon node drain", "drain in the Temporal UI", "force_drain in the Temporal UI", "expire", "interruption"],
)
async def test_evt04_the_result_says_why_the_node_left_and_who_removed_it(
    temporal: WorkflowEnvironment, cluster: str, signal: str, argument: Any, why: Removal
) -> None:
    async with node(temporal, cluster, FakeWorld(), skip_time=False):
        handle = await live(temporal.client, cluster)
        await handle.signal(signal, args=[] if argument is None else [argument])
        life = await handle.result()
    assert (life.reason, life.detail, life.actor) == (why.reason, why.detail, why.actor)
    (line,) = [entry.text for entry in life.timeline if entry.text.startswith("leaving: ")]
    assert line.endswith(f"({why.actor})")
    attributes = (await handle.describe()).typed_search_attributes
    assert attributes.get(names.REASON) == camel_case(why.reason)


async def test_a_signal_without_its_input_does_not_stop_the_workflow(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """Temporal keeps signals, so one that a handler fails on would fail every task from then on."""
    async with node(temporal, cluster, FakeWorld(), skip_time=False):
        handle = await live(temporal.client, cluster)
        await handle.signal("keep")
        await handle.signal("poke")
        await handle.signal("drain", args=[{"by": "ann"}, "by mistake"])
        await newest(temporal.client, cluster).execute_update(NodeClaimWorkflow.ask_drain, Operator(by="ben"))
        life = await handle.result()
    assert life.actor == "ben"


async def test_an_operators_update_is_answered_and_says_who_and_why(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """A node that leaves already refuses; one that says nothing about who asks is not heard."""
    ann = Operator(by="ann@example.com", reason="its disk is slow", ticket="OPS-12")
    world = FakeWorld()
    world.hold_drain = True
    async with node(temporal, cluster, world, skip_time=False):
        handle = await live(temporal.client, cluster)
        with pytest.raises(WorkflowUpdateFailedError) as unsigned:
            await handle.execute_update(NodeClaimWorkflow.ask_drain, Operator(reason="no name"))
        assert "Say who asks" in str(unsigned.value.cause)
        with pytest.raises(WorkflowUpdateFailedError) as empty:
            await handle.execute_update("drain")
        assert str(empty.value.cause).startswith('Update drain needs an input. For example: {"by": "ann"')
        with pytest.raises(WorkflowUpdateFailedError) as incomplete:
            await handle.execute_update("keep", {"by": "ann"})
        assert str(incomplete.value.cause).startswith("The input of update keep lacks until. For example: {")
        zoneless = {"by": "ann@example.com", "until": "2020-01-01T00:00:00"}
        answer = await handle.execute_update("keep", zoneless, result_type=OperatorAnswer)
        over = "2020-01-01 00:00:00 UTC is over, and no earlier request keeps it"
        assert answer.why == over
        past = Keep(by="ann@example.com", until=datetime(2020, 1, 1, tzinfo=UTC))
        assert (await handle.execute_update(NodeClaimWorkflow.ask_keep, past)).why == over
        assert (await handle.execute_update(NodeClaimWorkflow.ask_drain, ann)).accepted
        await until(lambda: called(world, "drain node"))
        again = await newest(temporal.client, cluster).execute_update(NodeClaimWorkflow.ask_expire, ann)
        assert (again.accepted, again.why) == (
            False,
            "it is leaving already: Drain: its disk is slow, OPS-12 (ann@example.com)",
        )
        forced = await newest(temporal.client, cluster).execute_update(NodeClaimWorkflow.ask_force_drain, ann)
        assert forced.accepted
        life = await handle.result()
        world.hold_drain = False
    assert (life.reason, life.detail, life.actor) == ("drain", "its disk is slow, OPS-12", "ann@example.com")
    texts = [entry.text for entry in life.timeline]
    assert (
        "force drain requested (ann@example.com): its disk is slow, OPS-12; "
        "pods are deleted without eviction from now on"
    ) in texts


async def test_evt04_a_cancellation_says_why(temporal: WorkflowEnvironment, cluster: str) -> None:
    async with node(temporal, cluster, FakeWorld(), skip_time=False):
        handle = await live(temporal.client, cluster)
        await handle.cancel()
        life = await handle.result()
    assert (life.reason, life.actor) == ("cancelled", "an operator, by a cancellation")


async def test_force_drain_overtakes_a_drain_that_is_stuck(temporal: WorkflowEnvironment, cluster: str) -> None:
    """An operator does not wait for a PodDisruptionBudget."""
    world = FakeWorld()
    world.hold_drain = True
    async with node(temporal, cluster, world, skip_time=False):
        handle = await live(temporal.client, cluster)
        await handle.signal(NodeClaimWorkflow.drain)
        await until(lambda: called(world, "drain node"))
        await handle.signal(NodeClaimWorkflow.force_drain)
        life = await handle.result()
        world.hold_drain = False
    assert life.reason == "drain"
    assert [value.force for value in world.inputs if type(value).__name__ == "DrainInput"] == [False, True]


async def test_a_second_request_to_drain_does_not_begin_the_drain_again(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """It asks for nothing more, and pods that end would be waited for from the start."""
    world = FakeWorld()
    world.hold_drain = True
    async with node(temporal, cluster, world, skip_time=False):
        handle = await live(temporal.client, cluster)
        await handle.signal(NodeClaimWorkflow.drain)
        await until(lambda: called(world, "drain node"))
        await handle.signal(NodeClaimWorkflow.drain)
        await stage(handle)
        await handle.signal(NodeClaimWorkflow.force_drain)
        await handle.result()
    assert [value.force for value in world.inputs if type(value).__name__ == "DrainInput"] == [False, True]


async def test_blocked_drain_says_so_and_goes_on(temporal: WorkflowEnvironment, cluster: str) -> None:
    """TRM-05: what blocks a drain stands in the state; it is tried again until it passes."""
    world = FakeWorld()
    world.drains = [
        DrainResult(
            remaining=1,
            blocked=[BlockedPods(pods=("default/web-0",), why="PodDisruptionBudget default/web allows none")],
        )
    ]
    async with node(temporal, cluster, world, skip_time=False):
        handle = await live(temporal.client, cluster)
        await handle.signal(NodeClaimWorkflow.drain)
        await until(lambda: blocked(handle))
        await temporal.fast_forward(newest(temporal.client, cluster), 2 * BLOCKED_RETRY)
        life = await handle.result()
    assert any("default/web allows none" in entry.text for entry in life.timeline)
    assert world.calls.count("drain node") == 2


async def test_no_capacity_ends_the_claim(temporal: WorkflowEnvironment, cluster: str) -> None:
    """LIF-01: insufficient capacity deletes the claim; nothing was bought, nothing is drained."""
    world = FakeWorld()
    world.launches = [LaunchResult(reason="insufficient_capacity", message="no m5.large in us-west-2a")]
    async with node(temporal, cluster, world) as handle:
        life = await handle.result()
    assert life.reason == "insufficient_capacity"
    assert "drain node" not in world.calls
    assert world.calls[-1] == "release node"


async def test_lif01_a_refused_launch_is_tried_again_by_the_same_life(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """It says what it waits for, each try is a new attempt, and what was refused before is over once it is launched."""
    world = FakeWorld()
    wait = LaunchWait(reason="Unauthorized", message="CreateFleet: you may not")
    world.launches = [LaunchResult(waits=wait), LaunchResult(waits=wait)]
    async with node(temporal, cluster, world, skip_time=False):
        handle = newest(temporal.client, cluster)
        await until(lambda: blocked(handle))
        state: NodeState = await handle.query(NodeClaimWorkflow.status)
        assert "you may not" in why_blocked(state)
        await temporal.fast_forward(handle, timedelta(seconds=5))
        await until(lambda: called_times(world, "launch instance", 2))
        await temporal.fast_forward(handle, timedelta(seconds=10))
        await until(lambda: at(handle, Stage.REGISTERING))
        state = await handle.query(NodeClaimWorkflow.status)
        assert (state.blocked, state.attempt) == (None, 3)
    assert world.calls[:6] == ["prepare launch", "launch instance"] * 3


async def test_lif01_a_launch_without_an_outcome_goes_on_with_the_same_request(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """No answer came in time, so EC2 may have bought an instance. Only the same request, with its token, finds it."""
    world = FakeWorld()
    world.launches = [lost_answer()]
    world.launches_go.clear()
    async with node(temporal, cluster, world, skip_time=False):
        handle = newest(temporal.client, cluster)
        await until(lambda: called(world, "launch instance"))
        world.launches_go.set()
        world.launches_go.clear()  # only the first one goes, so that the node stays blocked until it was asked
        await until(lambda: blocked(handle))
        state: NodeState = await handle.query(NodeClaimWorkflow.status)
        assert "no answer" in why_blocked(state)
        world.launches_go.set()
        await temporal.fast_forward(handle, timedelta(seconds=10))
        await until(lambda: at(handle, Stage.REGISTERING))
    assert world.calls[0] == "prepare launch"
    first, second = (item for item in world.inputs if isinstance(item, LaunchInput))
    assert first.request == second.request


async def test_a_launch_whose_nodeclaim_is_gone_ends_what_an_earlier_request_bought(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """It is not sent again, as it would be for any other failure: nothing would ever own its instance."""
    world = FakeWorld()
    world.launches = [ApplicationError("it is gone", type=ErrorType.CLAIM_GONE)]
    async with node(temporal, cluster, world) as handle:
        await handle.result()
    assert world.calls.count("launch instance") == 1
    assert world.calls[-2:] == ["terminate instance", "release node"]
    (ended,) = (item for item in world.inputs if isinstance(item, TerminateInput))
    assert ended.search_until is not None


async def test_a_node_that_never_joins_is_given_up(temporal: WorkflowEnvironment, cluster: str) -> None:
    """LIF-05, LIF-08: fifteen minutes without a Node end the instance directly."""
    world = FakeWorld()
    async with node(temporal, cluster, world) as handle:
        life = await handle.result()
    assert life.reason == "registration_timeout"
    assert world.calls[-2:] == ["terminate instance", "release node"]


async def test_deleted_while_launching(temporal: WorkflowEnvironment, cluster: str) -> None:
    """A NodeClaim deleted before its workflow looked is ended without a purchase."""
    world = FakeWorld(deleting=True)
    async with node(temporal, cluster, world) as handle:
        life = await handle.result()
    assert life.reason == "deleted"
    assert "launch instance" not in world.calls


async def test_a_step_that_is_always_denied_is_a_blocked_node(temporal: WorkflowEnvironment, cluster: str) -> None:
    """Seen by `tenon node list --blocked`; once it is allowed the life goes on."""
    world = Denied()
    async with node(temporal, cluster, world) as handle:
        await until(lambda: blocked(handle))
        state: NodeState = await handle.query(NodeClaimWorkflow.status)
        assert state.stage is Stage.TERMINATING
        assert why_blocked(state) == "terminate instance failed: RuntimeError: UnauthorizedOperation: not allowed"
        world.denies = False
        assert (await handle.result()).reason == "deleted"


class Denied(FakeWorld):
    """EC2 lets nobody end an instance; the claim is being deleted."""

    def __init__(self) -> None:
        super().__init__(deleting=True, instance=INSTANCE)
        self.denies = True

    @activity.defn(name=ActivityName.TERMINATE)
    async def terminate(self, terminate_input: TerminateInput) -> TerminateResult:
        if self.denies:
            raise RuntimeError("UnauthorizedOperation: not allowed")
        return await super().terminate(terminate_input)


@pytest.mark.parametrize("denied", [ActivityName.WITHDRAW, ActivityName.CHECK_EXPIRATION])
async def test_a_live_node_leaves_although_a_step_of_it_is_always_denied(
    temporal: WorkflowEnvironment, cluster: str, denied: ActivityName
) -> None:
    """Whatever a node must do meanwhile, such as an interruption, waits for the step that runs."""
    world = DeniedWhileLive(denied)
    async with node(temporal, cluster, world, skip_time=False):
        handle = await live(temporal.client, cluster)
        if denied is ActivityName.WITHDRAW:
            await handle.signal(NodeClaimWorkflow.poke, Poke(node_name="ip-10-0-0-1", disrupted=True))
        else:
            await temporal.fast_forward(handle, timedelta(days=1))
        await until(lambda: called(world, denied.value))
        await newest(temporal.client, cluster).signal(NodeClaimWorkflow.drain)
        await temporal.fast_forward(newest(temporal.client, cluster), timedelta(minutes=10))
        assert (await handle.result()).reason == "drain"
    assert world.calls.count(denied.value) == TRIES


class DeniedWhileLive(FakeWorld):
    """The API server denies one of the steps of a live node, whose time to live is a day."""

    def __init__(self, denied: ActivityName) -> None:
        super().__init__(expire_after_seconds=24 * 3600)
        self.denied = denied

    def _called(self, name: ActivityName, value: Any) -> None:
        super()._called(name, value)
        if name is self.denied and not activity.info().is_local:
            raise RuntimeError("not allowed")


async def test_a_terminated_workflow_is_rebuilt_from_its_claim(temporal: WorkflowEnvironment, cluster: str) -> None:
    """Rule 15 of docs/design.md: a life continues where the claim says it stands; nothing is bought again."""
    world = FakeWorld(instance=INSTANCE, registered=True, initialized=True, node_name="ip-10-0-0-1")
    async with node(temporal, cluster, world, skip_time=False):
        handle = newest(temporal.client, cluster)
        await until(lambda: at(handle, Stage.LIVE))
        assert world.calls == ["prepare launch"]
        description = await handle.describe()
        assert description.status is WorkflowExecutionStatus.RUNNING
        await handle.terminate()


async def test_a_cancelled_workflow_takes_its_node_away_gracefully(temporal: WorkflowEnvironment, cluster: str) -> None:
    """Rule 16 of docs/design.md: cancel means graceful delete, drain included, not a workflow that drops its node."""
    world = FakeWorld()
    async with node(temporal, cluster, world, skip_time=False):
        handle = await live(temporal.client, cluster)
        await handle.cancel()
        life = await handle.result()
    assert life.reason == "cancelled"
    assert world.calls[-4:] == ["cordon node", "drain node", "terminate instance", "release node"]


async def test_a_workflow_cancelled_in_the_middle_of_a_launch_ends_what_it_bought(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """The launch under way is seen through, so that its instance is known and ended."""
    world = FakeWorld()
    world.launches_go.clear()
    async with node(temporal, cluster, world, skip_time=False) as handle:
        await until(lambda: called(world, "launch instance"))
        await handle.cancel()
        await until(lambda: cancel_seen(handle))
        world.launches_go.set()
        life = await handle.result()
    assert (life.reason, life.instance_id) == ("cancelled", INSTANCE.id)
    assert world.calls[-2:] == ["terminate instance", "release node"]


async def cancel_seen(handle: Handle) -> bool:
    """Whether the workflow has worked on the request to cancel it."""
    state: NodeState = await handle.query(NodeClaimWorkflow.status)
    events = [event async for event in handle.fetch_history_events()]
    event_ids = [
        event.event_id for event in events if event.HasField("workflow_execution_cancel_requested_event_attributes")
    ]
    done = [event.event_id for event in events if event.HasField("workflow_task_completed_event_attributes")]
    return bool(event_ids) and done[-1] > event_ids[0] and state.stage is Stage.LAUNCHING


async def test_h7_blocked_drains_never_hold_up_a_launch(temporal: WorkflowEnvironment, cluster: str) -> None:
    """Every slot for drains is held by a node that cannot be drained: another node launches and comes to rest."""
    blocked, free = FakeWorld(), FakeWorld()
    blocked.hold_drain = True
    queue = names.task_queue(cluster)
    async with AsyncExitStack() as workers:
        for lane, world in (("", free), (CORDONING, free), (DRAINING, blocked), (ENDING, free)):
            await workers.enter_async_context(
                Worker(
                    temporal.client,
                    task_queue=names.lane_queue(queue, lane),
                    workflows=[] if lane else [NodeClaimWorkflow],
                    activities=world.all(),
                    max_concurrent_activities=1,
                )
            )

        async def begun(name: str) -> Handle:
            return await temporal.client.start_workflow(
                NodeClaimWorkflow.run,
                NodeClaimInput(claim=ClaimRef(cluster=cluster, name=name, uid=name)),
                id=names.nodeclaim_id(cluster, name),
                task_queue=queue,
            )

        with temporal.with_time_skipping_disabled():
            leaving = [await begun("leaves-1"), await begun("leaves-2")]
            for handle in leaving:
                await until(partial(at, handle, Stage.REGISTERING))
                await handle.signal(NodeClaimWorkflow.poke, Poke(node_name="ip-10-0-0-1"))
                await until(partial(at, handle, Stage.INITIALIZING))
                await handle.signal(NodeClaimWorkflow.drain)
            await until(lambda: called(blocked, "drain node"))
            launched = await begun("comes")
            await until(lambda: at(launched, Stage.REGISTERING))
            blocked.hold_drain = False
            await launched.signal(NodeClaimWorkflow.force_drain)
            for handle in (*leaving, launched):
                await handle.result()
