"""What somebody with Temporal's command does to a node's workflow: terminate, cancel and reset it, at every stage.

There is one NodePool for each of these acts, with one node at each stage. All are done at the same moment; then it is
judged for every act and stage apart what became of the node, and for every act whether anything was bought or lost.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS
from sandbox.cluster import Sandbox
from sandbox.ec2.client import Ec2Admin
from tenon.apis import labels
from tenon.node.state import NodeClaimResult, Stage
from tests.e2e.conftest import NewPool
from tests.e2e.pools import KEY, SMALL, Object, Pool, condition
from tests.faults.observer import Observer, watching
from tests.workflows.waiting import until
from workflows import names
from workflows.nodeclaim import NodeClaimWorkflow

Handle = WorkflowHandle[Any, Any]
STAGES = {
    "launching": "c5.large",
    "registering": "m5.large",
    "live": "r5.large",
    "draining": "c5a.large",
    "terminating": "m5a.large",
}
"""Each stage, and the instance type of its node: the pods of one stage run on no other's node."""
BACK_WITHIN = 90.0
"""A sweep of the bridge is a minute, and begins what it finds missing."""


async def terminate(handle: Handle) -> None:
    """`temporal workflow terminate`."""
    await handle.terminate(reason="by an operator")


async def cancel(handle: Handle) -> None:
    """`temporal workflow cancel`."""
    await handle.cancel()


async def reset_to_first(handle: Handle) -> None:
    """`temporal workflow reset --type FirstWorkflowTask`."""
    await _reset(handle, 0)


async def reset_to_last(handle: Handle) -> None:
    """`temporal workflow reset --type LastWorkflowTask`."""
    await _reset(handle, -1)


async def _reset(handle: Handle, name: int) -> None:
    client = handle._client
    run_id = (await handle.describe()).run_id
    history = await client.get_workflow_handle(handle.id, run_id=run_id).fetch_history()
    tasks = [e.event_id for e in history.events if e.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED]
    await client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=handle.id, run_id=run_id),
            reason="by an operator",
            workflow_task_finish_event_id=tasks[name],
            request_id=str(uuid.uuid4()),
        )
    )


ACTS: dict[str, Callable[[Handle], Awaitable[None]]] = {
    "terminate": terminate,
    "cancel": cancel,
    "reset-to-first-task": reset_to_first,
    "reset-to-last-task": reset_to_last,
}


@dataclass
class Node:
    """A node at its stage, as it was before the act."""

    pool: Pool
    stage: str
    claim: str
    handle: Handle
    run_id: str
    pods: set[str]
    instance: str = ""


@dataclass
class Outcome:
    """What came of all acts."""

    nodes: dict[tuple[str, str], BaseException | None] = field(default_factory=dict)
    pools: dict[str, BaseException | None] = field(default_factory=dict)


async def claim_for(pool: Pool, app: str) -> Object | None:
    """The claim that was made for the pods of an app."""
    for claim in await pool.claims():
        if f"{pool.name}-{app}-" in (claim["metadata"].get("annotations") or {}).get(labels.PLANNED_PODS, ""):
            return claim
    return None


async def deploy(pool: Pool, app: str) -> None:
    """A pod that only the node of its stage can run."""
    await pool.deploy(1, app, nodeSelector={KEY: pool.name, labels.INSTANCE_TYPE: STAGES[app]})


class Cast:
    """Brings the nodes of all pools to their stages."""

    def __init__(self, pools: list[Pool], client: Client, sandbox: Sandbox, ec2: Ec2Admin) -> None:
        self._pools = pools
        self._client = client
        self._cluster = sandbox.cluster_name
        self._ec2 = ec2

    async def enter(self) -> None:
        """All take their places; what is held stays so."""
        pools, ec2 = self._pools, self._ec2
        for pool in pools:
            for app in ("live", "draining", "terminating"):
                await deploy(pool, app)
        await asyncio.gather(*(pool.running(3) for pool in pools))
        await asyncio.gather(*(pool.settled(3) for pool in pools))

        ec2.hold("TerminateInstances", after_effect=True, count=None)  # who waits half a minute asks again
        for pool in pools:
            await pool.protect("draining")
            draining = await claim_for(pool, "draining")
            assert draining is not None
            await pool.kube.delete(NODECLAIMS, draining["metadata"]["name"])
            await pool.scale(0, "terminating")
        await asyncio.gather(*(self._reach(pool, "draining", Stage.DRAINING) for pool in pools))
        await asyncio.gather(*(self._reach(pool, "terminating", Stage.TERMINATING) for pool in pools))
        await self._held(1)  # one request for all that end at the same time

        ec2.boot(type=STAGES["registering"], never=True)
        for pool in pools:
            await deploy(pool, "registering")
        await asyncio.gather(*(self._launched(pool) for pool in pools))
        ec2.hold("CreateFleet", count=len(pools))
        for pool in pools:
            await deploy(pool, "launching")
        await self._held(1 + len(pools))

    async def node(self, pool: Pool, stage: str) -> Node:
        """The node of a stage."""
        claim = await claim_for(pool, stage)
        assert claim is not None
        name = claim["metadata"]["name"]
        handle = self._handle(name)
        provider_id = (claim.get("status") or {}).get("providerID") or ""
        return Node(
            pool=pool,
            stage=stage,
            claim=name,
            handle=handle,
            run_id=(await handle.describe()).run_id,
            pods={pod["metadata"]["uid"] for pod in await pool.pods(stage)},
            instance=provider_id.rsplit("/", 1)[-1],
        )

    def _handle(self, claim: str) -> Handle:
        return self._client.get_workflow_handle(names.nodeclaim_id(self._cluster, claim), result_type=NodeClaimResult)

    async def _reach(self, pool: Pool, app: str, stage: Stage) -> None:
        claim = await claim_for(pool, app)
        assert claim is not None
        handle = self._handle(claim["metadata"]["name"])

        async def reached() -> bool:
            try:
                return (await handle.query(NodeClaimWorkflow.status)).stage is stage
            except RPCError:  # no worker answered in time
                return False

        await until(reached)

    async def _held(self, count: int) -> None:
        async def all_held() -> bool:
            return await asyncio.to_thread(self._ec2.held) >= count

        try:
            await until(all_held)
        except TimeoutError:
            raise AssertionError(f"{self._ec2.held()} of {count} calls are held") from None

    async def _launched(self, pool: Pool) -> None:
        async def launched() -> bool:
            return condition(await claim_for(pool, "registering"), "Launched").get("status") == "True"

        await until(launched)


async def is_back(node: Node) -> None:
    """Within about a minute another run has the node's life in hand, or an activity has brought it to its end."""

    async def back() -> bool:
        if await node.pool.kube.get(NODECLAIMS, node.claim) is None:
            return True
        try:
            return (await node.handle.describe()).run_id != node.run_id
        except RPCError:  # Temporal deletes nothing, but may be slow to tell
            return False

    await until(back, within=BACK_WITHIN)


async def went_gracefully(node: Node) -> None:
    """The node is gone, and its life says why."""
    await node.pool.gone(node.claim, within=BACK_WITHIN)
    life: NodeClaimResult = await node.handle.result()
    reasons = {"draining": "deleted", "terminating": "Empty"}
    assert life.reason == reasons.get(node.stage, "cancelled")


async def kept_its_instance(node: Node) -> None:
    """The claim has its node, on the instance and with the pods that it had before."""
    pods = await node.pool.running(1, node.stage)
    assert [await node.pool.claim_of(pod) for pod in pods] == [node.claim]
    if node.pods:
        assert {pod["metadata"]["uid"] for pod in pods} == node.pods
    (instance,) = node.pool.instances(node.claim)
    assert node.instance in ("", instance["id"])


async def after(act: str, node: Node) -> None:
    """What must have become of a node."""
    if act != "cancel":
        await is_back(node)
    if node.stage == "draining":
        (pod,) = await node.pool.running(1, "draining")
        assert {pod["metadata"]["uid"]} == node.pods, "the guarded pod was evicted"
        await node.pool.scale(0, "draining")
    if act == "cancel":
        await went_gracefully(node)
    elif node.stage in ("draining", "terminating"):
        await node.pool.gone(node.claim, within=BACK_WITHIN)
    else:
        await kept_its_instance(node)


async def ends(act: str, pool: Pool, observer: Observer) -> None:
    """All pods run, and when they have gone nothing is left; the acts bought nothing."""
    await observer.whole(pool)
    for app in STAGES:
        await pool.scale(0, app)
    await observer.nothing_left(pool)
    observer.judge(pool)
    if act != "cancel":
        assert observer.bought(pool) == len(STAGES)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def acted(new_pool: NewPool, client: Client, sandbox: Sandbox, kube: Kube) -> AsyncIterator[Outcome]:
    """What became of every node and pool."""
    ec2 = sandbox.ec2()
    async with AsyncExitStack() as stack:
        entered = await asyncio.gather(*(stack.enter_async_context(new_pool(requirements=SMALL)) for _ in ACTS))
        pools = dict(zip(ACTS, entered, strict=True))
        observer = await stack.enter_async_context(watching(kube, sandbox, *entered))
        for app in STAGES:
            observer.may_move(pools["cancel"], app)
        cast = Cast(list(entered), client, sandbox, ec2)
        stack.callback(ec2.release)  # a setup that fails leaves nothing behind for the tests after it
        stack.callback(ec2.clear_boot)
        await cast.enter()
        nodes = {(act, stage): await cast.node(pool, stage) for act, pool in pools.items() for stage in STAGES}
        await asyncio.gather(*(ACTS[act](node.handle) for (act, _), node in nodes.items()))
        ec2.release()
        ec2.clear_boot()
        result = await asyncio.gather(*(after(act, node) for (act, _), node in nodes.items()), return_exceptions=True)
        ended = await asyncio.gather(
            *(ends(act, pool, observer) for act, pool in pools.items()), return_exceptions=True
        )
        yield Outcome(dict(zip(nodes, result, strict=True)), dict(zip(pools, ended, strict=True)))


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("act", ACTS)
async def test_a_node_outlives_what_is_done_to_its_workflow(acted: Outcome, act: str, stage: str) -> None:
    """Terminated or reset: the node keeps instance and pods. Cancelled: it goes gracefully."""
    failure = acted.nodes[act, stage]
    if failure is not None:
        raise failure


@pytest.mark.parametrize("act", ACTS)
async def test_nothing_is_bought_or_lost_by_what_operators_do(acted: Outcome, act: str) -> None:
    """One instance for each claim, no pod lost, nothing left; only after a cancellation are there new nodes."""
    failure = acted.pools[act]
    if failure is not None:
        raise failure
