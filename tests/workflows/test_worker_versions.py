"""Two versions of the worker that order the steps of a node differently, with worker versioning."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timedelta

import pytest
from prometheus_client import REGISTRY
from temporalio.api.enums.v1 import VersioningBehavior as Behavior
from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails

from cli.diagnosis.finding import FindingState
from cli.diagnosis.temporal import check_worker_versions
from tenon.messages.base import ClaimRef
from tenon.messages.node import Poke
from tenon.messages.node_steps import DrainResult
from tenon.node import leaving_stages, machine
from tenon.node.state import NodeClaimInput, NodeState, Stage
from tenon.node.steps import Step
from tests.workflows.fake_activities import FakeWorld
from tests.workflows.guarded_node import GUARDED
from tests.workflows.node_workflow import Handle, at, blocked, live, newest
from tests.workflows.serving import serving
from tests.workflows.test_code_versions import OLD_STEP, new_step
from tests.workflows.waiting import until
from worker.runtime.temporal import version_routing, worker_versions
from worker.runtime.temporal.temporal_plugin import converter
from worker.runtime.temporal.version_routing import BUILD_ID, Routing, VersionRouting
from worker.runtime.temporal.worker_versions import WorkerVersions, deployment_config, errors_that_end_runs
from worker.runtime.temporal.workflow_runner import TASK_FAILURES, TenonWorkflowRunner
from worker.settings import Settings, load
from workflows import names
from workflows.nodeclaim import NodeClaimWorkflow

pytestmark = pytest.mark.integration

CODE = threading.local()
"""The version whose code the thread runs."""
STEPS = {"a": OLD_STEP, "b": new_step}
FAILURES = "tenon_workflow_task_failures_total"


def step_of_version(state: NodeState, now: datetime) -> Step:
    """The next step by the version that runs the workflow."""
    return STEPS[CODE.version](state, now)


class RunnerOfVersion(TenonWorkflowRunner):
    """Runs workflows by the code of one version."""

    def __init__(self, version: str) -> None:
        self.version = version

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        instance = super().create_instance(det)
        activate = instance.activate

        def by_version(act: WorkflowActivation) -> WorkflowActivationCompletion:
            CODE.version = self.version
            return activate(act)

        instance.activate = by_version  # type: ignore[method-assign]
        return instance


@pytest.fixture
async def client(temporal: WorkflowEnvironment, monkeypatch: pytest.MonkeyPatch) -> Client:
    """A client without the plugin, whose runner knows one version only."""
    monkeypatch.setattr(machine, "next_step", step_of_version)
    monkeypatch.setattr(worker_versions, "LOOK_EVERY", 1.0)
    monkeypatch.setattr(worker_versions, "RETRY", 0.5)
    monkeypatch.setattr(worker_versions, "ASK_EVERY", 0.5)
    monkeypatch.setattr(worker_versions, "ASK_DRAINING_EVERY", 1.0)
    return await connected(temporal.client)


async def connected(client: Client) -> Client:
    """Another connection to the server, as each process has its own."""
    return await Client.connect(client.service_client.config.target_host, data_converter=converter(None))


async def newest_revision() -> bool:
    return True


async def earlier_revision() -> bool:
    return False


@asynccontextmanager
async def version(
    client: Client,
    cluster: str,
    world: FakeWorld,
    build_id: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_newest: bool = True,
    settings: Settings | None = None,
) -> AsyncIterator[WorkerVersions]:
    """A worker of this version, which serves and looks after the routing as the io process does."""
    settings = settings or load(cluster_name=cluster, worker_versioning="Automatic")
    monkeypatch.setenv(BUILD_ID, build_id)
    own = await connected(client)
    versions = WorkerVersions(settings, newest_revision if is_newest else earlier_revision)
    async with AsyncExitStack() as running:
        await running.enter_async_context(
            serving(
                own,
                cluster,
                world.all(),
                deployment_config=deployment_config(settings),
                workflow_failure_exception_types=errors_that_end_runs(settings),
                workflow_runner=RunnerOfVersion(build_id),
            )
        )
        watching = asyncio.create_task(versions.run(own))
        running.callback(watching.cancel)
        yield versions


async def start(client: Client, cluster: str, name: str) -> Handle:
    return await client.start_workflow(
        NodeClaimWorkflow.run,
        NodeClaimInput(claim=ClaimRef(cluster=cluster, name=name, uid="u1")),
        id=names.nodeclaim_id(cluster, name),
        task_queue=names.task_queue(cluster),
    )


async def where(handle: Handle) -> tuple[str, bool]:
    """The version that ran the last task of the node, and whether the node is pinned to it."""
    info = (await handle.describe()).raw_description.workflow_execution_info.versioning_info
    return info.deployment_version.build_id, info.behavior == Behavior.VERSIONING_BEHAVIOR_PINNED


async def is_ready(versions: WorkerVersions) -> bool:
    return not versions.why_not_ready()


async def is_at(handle: Handle, version_and_pin: tuple[str, bool]) -> bool:
    return await where(handle) == version_and_pin


async def answers_at(handle: Handle, build_id: str) -> bool:
    """Give the node a task, and see whether it rests on this version. Temporal's queues hear of a version late."""
    await handle.signal(NodeClaimWorkflow.poke, Poke(node_name="ip-10-0-0-1", node_ready=True))
    return await is_at(handle, (build_id, False))


def guarded_world() -> FakeWorld:
    """A world where drains stay blocked until they are forced, however long a test takes to get there."""
    world = FakeWorld()
    world.drains = [DrainResult(remaining=1, blocked=[GUARDED])] * 100
    return world


async def draining(client: Client, cluster: str) -> Handle:
    """A node whose drain a PodDisruptionBudget blocks."""
    await start(client, cluster, "default-x1")
    handle = await live(client, cluster)
    await handle.signal(NodeClaimWorkflow.drain)
    await until(lambda: blocked(handle))
    return handle


def routing(client: Client, cluster: str) -> VersionRouting:
    return VersionRouting(client, names.task_queue(cluster), names.task_queue(cluster))


async def routed(client: Client, cluster: str) -> Routing | None:
    """The routing; None if Temporal refuses to say it, because it limits how often it is asked."""
    try:
        return await routing(client, cluster).read()
    except RPCError:
        return None


async def is_current(client: Client, cluster: str, build_id: str) -> bool:
    observed = await routed(client, cluster)
    return observed is not None and observed.current == build_id


async def made_current(client: Client, cluster: str, build_id: str) -> bool:
    """Make a version Current, as an operator does. Temporal knows a version a moment after its first poll."""
    try:
        await routing(client, cluster).make_current(build_id, "ann")
    except RPCError:
        return False
    return True


async def tasks_of(client: Client, handle: Handle) -> int:
    """How many workflow tasks failed in the newest run."""
    events = [event async for event in client.get_workflow_handle(handle.id).fetch_history_events()]
    return sum(event.HasField("workflow_task_failed_event_attributes") for event in events)


async def is_listed_as_pinned(client: Client, workflow_id: str) -> bool:
    """Whether Temporal's list shows the run as one that only its version may run."""
    pinned = "TemporalWorkflowVersioningBehavior = 'Pinned' AND ExecutionStatus = 'Running'"
    return bool([run async for run in client.list_workflows(f"WorkflowId = '{workflow_id}' AND {pinned}")])


async def test_a_node_in_the_middle_of_steps_stays_on_its_version_until_it_continues_as_new(
    client: Client, temporal: WorkflowEnvironment, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The later version orders the steps of a drain differently, and neither a run nor a task fails."""
    world = guarded_world()
    for pause in ("BLOCKED_RETRY", "MAX_BLOCKED_RETRY"):  # a next try would pin the run again
        monkeypatch.setattr(leaving_stages, pause, timedelta(hours=1))
    with temporal.with_time_skipping_disabled():
        async with version(client, cluster, world, "a", monkeypatch) as first:
            await until(lambda: is_ready(first))
            handle = await draining(client, cluster)
            assert await where(handle) == ("a", True)
            run = (await handle.describe()).run_id
            async with version(client, cluster, world, "b", monkeypatch) as second:
                assert second.why_not_ready()
                await until(lambda: is_ready(second))
                await until(lambda: is_current(client, cluster, "b"))
                assert await where(handle) == ("a", True)
                await until(lambda: is_listed_as_pinned(client, handle.id))  # Temporal's list of runs is a moment late
                await first.leave()
                assert (await handle.describe()).run_id != run
                await until(lambda: is_at(handle, ("b", False)))  # it only waits for the next try
                await handle.signal(NodeClaimWorkflow.force_drain)
                assert (await newest(client, cluster).result()).reason == "drain"
    assert await tasks_of(client, handle) == 0
    statuses = [x.status async for x in client.list_workflows(f"WorkflowId = '{handle.id}'")]
    assert WorkflowExecutionStatus.FAILED not in statuses


async def test_with_manual_versioning_the_runs_of_an_earlier_version_leave_it_within_minutes(
    client: Client, temporal: WorkflowEnvironment, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its workers ask them to, because the version is removed once it is drained, and its leader plans until then."""
    world = guarded_world()
    for pause in ("BLOCKED_RETRY", "MAX_BLOCKED_RETRY"):  # a next try would pin the run again
        monkeypatch.setattr(leaving_stages, pause, timedelta(hours=1))
    for pause in ("CONTINUES_AFTER", "MAX_CONTINUES_AFTER"):  # the timer of an earlier wait would give the run a task
        monkeypatch.setattr(f"workflows.nodeclaim.{pause}", timedelta())
    manual = load(cluster_name=cluster, worker_versioning="Manual")
    with temporal.with_time_skipping_disabled():
        async with version(client, cluster, world, "a", monkeypatch, settings=manual):
            await until(lambda: made_current(client, cluster, "a"))
            handle = await draining(client, cluster)
            assert await where(handle) == ("a", True)
            async with version(client, cluster, world, "b", monkeypatch, settings=manual):
                await until(lambda: made_current(client, cluster, "b"))
                await until(lambda: is_at(handle, ("b", False)))
                await handle.signal(NodeClaimWorkflow.force_drain)
                assert (await newest(client, cluster).result()).reason == "drain"
    assert await tasks_of(client, handle) == 0


async def test_a_node_at_rest_moves_at_its_next_task_and_back_after_a_rollback(
    client: Client, temporal: WorkflowEnvironment, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No run waits for its first version, however long the node is idle."""
    world = FakeWorld()
    monkeypatch.setattr("workflows.nodeclaim.CONTINUES_AFTER", timedelta())
    monkeypatch.setattr("workflows.nodeclaim.MAX_CONTINUES_AFTER", timedelta())
    async with version(client, cluster, world, "a", monkeypatch) as first:
        await until(lambda: is_ready(first))
        with temporal.with_time_skipping_disabled():
            await start(client, cluster, "default-x1")
            handle = await live(client, cluster)
        await until(lambda: is_at(handle, ("a", False)))
        for build_id in ("b", "a"):
            async with version(client, cluster, world, build_id, monkeypatch) as serving_now:
                await until(lambda versions=serving_now: is_ready(versions))  # type: ignore[misc]
                await until(lambda build=build_id: answers_at(handle, build))  # type: ignore[misc]
                assert await at(handle, Stage.LIVE)
        assert await tasks_of(client, handle) == 0


async def test_a_run_whose_version_is_gone_goes_on_and_an_error_fails_its_task_not_the_run(
    client: Client, temporal: WorkflowEnvironment, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version that takes over cannot replay it. The failed task is counted, and a rollback mends it."""
    world = guarded_world()
    before = REGISTRY.get_sample_value(FAILURES, {"workflow": "NodeClaim"}) or 0
    with temporal.with_time_skipping_disabled():
        async with version(client, cluster, world, "a", monkeypatch) as first:
            await until(lambda: is_ready(first))
            handle = await draining(client, cluster)
        monkeypatch.setattr(version_routing, "POLL_LIMIT", timedelta())  # a worker that stopped is gone at once
        async with version(client, cluster, world, "b", monkeypatch):

            async def counted() -> bool:
                return (REGISTRY.get_sample_value(FAILURES, {"workflow": "NodeClaim"}) or 0) > before

            await until(counted)
            assert (await handle.describe()).status is WorkflowExecutionStatus.RUNNING
        async with version(client, cluster, world, "a", monkeypatch):
            await handle.signal(NodeClaimWorkflow.force_drain)
            assert (await newest(client, cluster).result()).reason == "drain"


async def test_a_version_without_workers_loses_its_place_to_one_that_has_some(
    client: Client, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it is not the newest: a node never waits for a version that does not run."""
    world = FakeWorld()
    async with version(client, cluster, world, "a", monkeypatch) as first:
        await until(lambda: is_ready(first))
    async with version(client, cluster, world, "b", monkeypatch, is_newest=False) as second:
        await until(lambda: is_ready(second))
        await until(lambda: is_current(client, cluster, "a"))

        async def served_by_first() -> bool:
            return not await routing(client, cluster).has_worker("a")

        monkeypatch.setattr(version_routing, "POLL_LIMIT", timedelta(seconds=1))
        await until(served_by_first)
        await until(lambda: is_current(client, cluster, "b"))


async def test_a_ramping_version_whose_tasks_fail_gives_all_workflows_back_and_is_not_ready(
    client: Client, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rollout stops, because Kubernetes waits for the new worker."""
    world = FakeWorld()
    async with version(client, cluster, world, "a", monkeypatch) as first:
        await until(lambda: is_ready(first))
        ramped = load(cluster_name=cluster, worker_versioning="Automatic", worker_version_ramp="10m")
        async with version(client, cluster, world, "b", monkeypatch, settings=ramped) as second:

            async def ramps() -> bool:
                observed = await routed(client, cluster)
                return observed is not None and (observed.current, observed.ramping, observed.percentage) == (
                    "a",
                    "b",
                    20,
                )

            await until(ramps)

            async def says_that_it_ramps() -> bool:
                return "Ramping with 20 %" in second.why_not_ready()

            await until(says_that_it_ramps)  # Temporal shows the ramp before the worker has its answer
            TASK_FAILURES.add("NodeClaim")

            async def given_back() -> bool:
                observed = await routed(client, cluster)
                return observed is not None and (observed.current, observed.ramping) == ("a", "")

            await until(given_back)

            async def says_so() -> bool:
                return "roll back" in second.why_not_ready()

            await until(says_so)


async def test_workers_without_versioning_take_over_from_those_that_had_it(
    client: Client, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise all workflows would wait for a version of the worker."""
    world = FakeWorld()
    async with version(client, cluster, world, "a", monkeypatch) as first:
        await until(lambda: is_ready(first))
    async with version(client, cluster, world, "a", monkeypatch, settings=load(cluster_name=cluster)):
        await until(lambda: is_current(client, cluster, ""))
        await start(client, cluster, "default-x1")
        await live(client, cluster)


async def test_a_run_of_a_version_that_died_goes_on_after_versioning_was_turned_off(
    client: Client, temporal: WorkflowEnvironment, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise nodes in the middle of steps would wait for a version that never comes back."""
    world = guarded_world()
    with temporal.with_time_skipping_disabled():
        async with version(client, cluster, world, "a", monkeypatch) as first:
            await until(lambda: is_ready(first))
            handle = await draining(client, cluster)
            assert await where(handle) == ("a", True)
        monkeypatch.setattr(version_routing, "POLL_LIMIT", timedelta())  # a worker that stopped is gone at once
        async with version(client, cluster, world, "a", monkeypatch, settings=load(cluster_name=cluster)):
            await handle.signal(NodeClaimWorkflow.force_drain)
            assert (await newest(client, cluster).result()).reason == "drain"


async def test_doctor_says_when_no_worker_of_the_current_version_runs_and_what_to_do(
    client: Client, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workflows then wait, and nothing in Kubernetes shows it."""
    monkeypatch.setenv("TEMPORAL_ADDRESS", client.service_client.config.target_host)
    automatic = load(cluster_name=cluster, worker_versioning="Automatic")
    (without,) = await check_worker_versions(automatic)
    assert without.state is FindingState.FAULT
    assert "No version" in without.sentence
    async with version(client, cluster, FakeWorld(), "a", monkeypatch) as first:
        await until(lambda: is_ready(first))

        async def finds_it() -> bool:
            return [finding.state for finding in await check_worker_versions(automatic)] == [FindingState.OK]

        await until(finds_it)
    monkeypatch.setattr(version_routing, "POLL_LIMIT", timedelta())
    disabled = load(cluster_name=cluster)
    for settings, option in ((automatic, "--build-id a"), (disabled, "--unversioned")):

        async def says_what_to_do(settings: Settings = settings, option: str = option) -> bool:
            (finding,) = await check_worker_versions(settings)
            command = f"set-current-version --deployment-name tenon-{cluster} {option}"
            return finding.state is FindingState.FAULT and finding.remedy.endswith(command)

        await until(says_what_to_do)
