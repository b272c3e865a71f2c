"""A disruption command completes once or is undone once, whatever dies, is refused or arrives in the middle of it.

Commands of several NodePools are brought to a step each, and then one fault meets all of them: a SIGKILL, an operator
who terminates them, or a pod that arrives on the candidate.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TypeAlias

import pytest
import pytest_asyncio
from temporalio.client import Client

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS, NODEPOOLS, NODES
from sandbox.cluster import Sandbox
from sandbox.ec2.client import Ec2Admin
from sandbox.faults.apiproxy import ApiProxy
from tenon.apis import labels
from tests.e2e.conftest import MakePool, NewPool
from tests.e2e.pools import NAMESPACE, SMALL, Pool, condition
from tests.e2e.worker_process import WorkerProcess
from tests.faults.conftest import Observe
from tests.faults.observer import Observer, watching
from tests.workflows.waiting import until
from workflows import names
from workflows.disruption import DisruptionWorkflow

WAITS = "while-the-command-waits"
MARKED = "before-the-candidate-is-marked"
CREATED = "before-the-replacement-is-created"
ANSWERED = "after-the-replacement-is-created"
LAUNCHED = "before-the-replacement-is-launched"
CHEAPER = "before-the-cheaper-replacement-is-launched"
CHECKED = "before-the-candidate-is-checked"
DELETED = "before-the-old-node-is-deleted"
MOMENTS = (WAITS, MARKED, CREATED, ANSWERED, LAUNCHED, CHECKED, DELETED)
"""The steps of a command in their order."""
CONSOLIDATIONS = {WAITS, CHEAPER, CHECKED}
"""The moments of a consolidation. At the others, a node drifts."""
ARRIVALS = {WAITS: 1, CHEAPER: 2, LAUNCHED: 2, DELETED: 2}
"""The moments at which a pod arrives, and how many instances each pool needs in all."""
LATE = "pod-arrives-"
"""Prefix of a moment: the pool at which a pod arrives then, next to one whose command meets another fault."""
LONG = 480.0
"""Bounds the end of a command that was terminated: its nodes are free after three minutes."""
ON_DEMAND = [{"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}]
UNDERUTILIZED = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1s"}
NEVER = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"}
AT_ONCE = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "1s"}


Outcomes: TypeAlias = dict[str, tuple[int, int] | BaseException]
"""By moment: how many NodeClaims and instances a pool had in all, or what went wrong."""


async def drift(pool: Pool) -> None:
    """Change the NodePool so that its nodes drift."""
    template = {"metadata": {"labels": {"tier": "gold"}}}
    await pool.kube.patch(NODEPOOLS, pool.name, {"spec": {"template": template}})


async def disrupt(pool: Pool, policy: dict[str, str]) -> None:
    """Change the NodePool's policy."""
    await pool.kube.patch(NODEPOOLS, pool.name, {"spec": {"disruption": policy}})


async def one_node(pool: Pool, too_large: bool) -> str:
    """A node with a pod, larger than the pod needs if asked; its NodeClaim's name."""
    if too_large:
        await pool.deploy(1, app="big", cpu="14")
    await pool.deploy(1, cpu="500m")
    await pool.running(1 + too_large)
    (claim,) = await pool.settled(1)
    if too_large:
        await pool.scale(0, app="big")
        await pool.running(1)
    return str(claim["metadata"]["name"])


async def marked(pool: Pool, claim: str) -> bool:
    """Whether anything of a command is left on a NodeClaim or its Node."""
    result = await pool.kube.get(NODECLAIMS, claim)
    assert result is not None
    node = await pool.kube.get(NODES, result["status"]["nodeName"])
    assert node is not None
    tainted = any(taint["key"] == labels.DISRUPTED_TAINT[0] for taint in node["spec"].get("taints") or ())
    annotated = labels.DISRUPTED_BY in result["metadata"]["annotations"]
    return tainted or annotated or condition(result, "DisruptionReason").get("status") == "True"


async def candidate_marked(pool: Pool, claim: str) -> None:
    """Wait until a command has marked a NodeClaim."""
    await until(lambda: marked(pool, claim), within=90)


def moment_of(key: str) -> str:
    """The moment of a pool."""
    return key.removeprefix(LATE)


@dataclass(frozen=True)
class Stage:
    """The pools by their moment, what can be held, and who knows the commands."""

    pools: dict[str, Pool]
    api: ApiProxy
    ec2: Ec2Admin
    client: Client
    cluster: str

    def at(self, moment: str) -> list[str]:
        """The keys of the pools with this moment."""
        return [key for key in self.pools if moment_of(key) == moment]

    async def command_of(self, key: str) -> str:
        """Wait until a command was given for the node of a pool, marked or not; its ID."""
        disruption = self.client.get_workflow_handle_for(DisruptionWorkflow.run, names.disruption_id(self.cluster))
        result: list[str] = []

        async def given() -> bool:
            commands = await disruption.query(DisruptionWorkflow.open_commands)
            result[:] = [entry.command for entry in commands.values() if entry.pool == self.pools[key].name]
            return bool(result)

        await until(given, within=90)
        return result[0]

    async def held(self, *, api: int = 0, ec2: int = 0) -> None:
        """Wait until so many calls are held."""

        async def all_held() -> bool:
            hold = await asyncio.to_thread(self.api.held), await asyncio.to_thread(self.ec2.held)
            return hold[0] >= api and hold[1] >= ec2

        await until(all_held, within=90)

    async def claims(self, key: str, count: int) -> None:
        """Wait until a pool has so many NodeClaims."""

        async def there() -> bool:
            return len(await self.pools[key].claims()) == count

        await until(there, within=90)

    async def set(self) -> None:
        """Bring the command of each pool to its moment, except those that wait for their validation (`waits`).

        A client that waits for half a minute repeats its call, which is then held again. Holds that are not specific to
        a pool come last.
        """
        hold = 0
        for moment, method in ((MARKED, "PATCH"), (DELETED, "DELETE")):
            for key in self.at(moment):
                self.api.hold(method, f"/nodeclaims/{self.pools[key].name}-[^/]+$", count=None)
                await drift(self.pools[key])
                hold += 1
        for key in self.at(CHECKED):
            self.api.hold("GET", f"/namespaces/{NAMESPACE}/poddisruptionbudgets$", count=None)
            await disrupt(self.pools[key], UNDERUTILIZED)
            hold += 1
        await self.held(api=hold)
        self.ec2.hold("CreateFleet", count=None)
        for key in self.at(CHEAPER):
            await disrupt(self.pools[key], UNDERUTILIZED)
        for key in self.at(LAUNCHED):
            await drift(self.pools[key])
        launching = [*self.at(CHEAPER), *self.at(LAUNCHED)]
        for key in launching:
            await self.claims(key, 2)
        await self.held(ec2=len(launching))
        for key in self.at(ANSWERED):
            self.api.hold("POST", "/nodeclaims$", after_effect=True)
            await drift(self.pools[key])
            await self.claims(key, 2)
        for key in self.at(CREATED):
            self.api.hold("POST", "/nodeclaims$", count=None)
            await drift(self.pools[key])
            await candidate_marked(self.pools[key], (await self.pools[key].claim())["metadata"]["name"])
            await self.held(api=hold + 2)

    async def waits(self, key: str) -> None:
        """Bring the command of a pool to the wait before its validation, which lasts 15 seconds."""
        await disrupt(self.pools[key], UNDERUTILIZED)
        await self.command_of(key)

    async def release(self) -> None:
        """Let everything go on."""
        await asyncio.to_thread(self.api.release)
        await asyncio.to_thread(self.ec2.release)


async def undone(pool: Pool, old: str, nodes: int = 1) -> None:
    """The node and its pod are as before, and of the command nothing is left on any of the pool's nodes."""

    async def free() -> bool:
        claims = await pool.claims()
        if len(claims) != nodes or any(labels.REPLACEMENT_FOR in claim["metadata"]["annotations"] for claim in claims):
            return False
        return not await marked(pool, old)

    await until(free, within=LONG)


def seen_of(observer: Observer, pool: Pool) -> tuple[int, int]:
    """How many NodeClaims and how many instances were ever seen of a pool."""
    return sum(name.startswith(f"{pool.name}-") for name in observer.claims), observer.bought(pool)


@dataclass(frozen=True)
class Set:
    """Nodes of several pools, each with a command at its moment."""

    stage: Stage
    observer: Observer
    old: dict[str, str]
    """The names of their NodeClaims by moment."""

    async def completed(self, key: str) -> None:
        """The node is gone, and its pod runs on a new one."""
        pool = self.stage.pools[key]
        await pool.gone(self.old[key], within=LONG)
        await self.observer.whole(pool)
        (new,) = await pool.settled(1)
        assert moment_of(key) in CONSOLIDATIONS or new["metadata"]["labels"]["tier"] == "gold"

    async def outcomes(self, end: Callable[[str], Awaitable[None]]) -> Outcomes:
        """Wait for the end of each command, then until nothing is left without pods, and judge what was seen."""

        async def one(key: str) -> tuple[int, int]:
            pool = self.stage.pools[key]
            await end(key)
            result = seen_of(self.observer, pool)
            await pool.scale(0)
            await disrupt(pool, AT_ONCE)
            await self.observer.nothing_left(pool)
            self.observer.judge(pool)
            return result

        keys = list(self.stage.pools)
        ended = await asyncio.gather(*map(one, keys), return_exceptions=True)
        return dict(zip(keys, ended, strict=True))


AtMoments: TypeAlias = Callable[[Collection[str], Collection[str]], AbstractAsyncContextManager[Set]]


@pytest.fixture(scope="module")
def at_moments(new_pool: NewPool, kube: Kube, sandbox: Sandbox, api: ApiProxy, client: Client) -> AtMoments:
    """Brings commands to their moments, given as keys. The pods at those of the second must not be evicted."""

    @asynccontextmanager
    async def set_stage(keys: Collection[str], staying: Collection[str]) -> AsyncIterator[Set]:
        async with AsyncExitStack() as stack:
            on_demands = [ON_DEMAND if moment_of(key) in CONSOLIDATIONS else SMALL for key in keys]
            making = [new_pool(requirements=types, consolidate_after="Never") for types in on_demands]
            output = await asyncio.gather(*map(stack.enter_async_context, making))
            pools = dict(zip(keys, output, strict=True))
            observer = await stack.enter_async_context(watching(kube, sandbox, *pools.values()))
            for key in pools.keys() - set(staying):
                observer.may_move(pools[key])
            consolidated = [moment_of(key) in CONSOLIDATIONS for key in keys]
            names = await asyncio.gather(*map(one_node, output, consolidated))
            stage = Stage(pools, api, sandbox.ec2(), client, sandbox.cluster_name)
            stack.push_async_callback(stage.release)  # or the pools could not be cleared, and a failure not be read
            await stage.set()
            yield Set(stage, observer, dict(zip(pools, names, strict=True)))

    return set_stage


@pytest_asyncio.fixture(scope="module", loop_scope="session", params=["io", "cluster"])
async def killed(
    request: pytest.FixtureRequest, at_moments: AtMoments, worker: WorkerProcess
) -> AsyncIterator[Outcomes]:
    """What became of the command of each moment after a process was killed."""
    async with at_moments(MOMENTS, ()) as value:
        await value.stage.waits(WAITS)
        await asyncio.to_thread(worker.kill, request.param)
        await value.stage.release()
        await asyncio.to_thread(worker.start)
        yield await value.outcomes(value.completed)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def met(at_moments: AtMoments, client: Client, sandbox: Sandbox) -> AsyncIterator[Outcomes]:
    """What became of the commands that were terminated, and of those on whose candidate a pod arrived (`LATE`).

    Both faults meet at the same time, because the nodes of a terminated command are free only after three minutes.
    """
    late = [LATE + moment for moment in ARRIVALS]
    async with at_moments(
        [*MOMENTS, *late], {CHECKED, *(key for key in late if moment_of(key) in CONSOLIDATIONS)}
    ) as value:
        stage = value.stage

        async def arrives(key: str) -> None:
            """A pod that tolerates the taint."""
            pool = stage.pools[key]
            claim = await pool.kube.get(NODECLAIMS, value.old[key])
            assert claim is not None
            node = claim["status"]["nodeName"]
            await pool.pod("late", cpu="100m", nodeName=node, tolerations=[{"operator": "Exists"}])

        async def rejected(key: str) -> None:
            """The command ends at its validation, and the node gets no other one."""
            pool = stage.pools[key]
            await pool.seen(value.old[key], "ConsolidationRejected", f"{pool.name}-late came after the decision")
            await disrupt(pool, NEVER)

        await stage.waits(LATE + WAITS)
        await asyncio.gather(*map(arrives, late))
        rejection = asyncio.create_task(rejected(LATE + WAITS))
        await stage.waits(WAITS)
        for moment in MOMENTS:
            command = names.command_id(sandbox.cluster_name, await stage.command_of(moment))
            await client.get_workflow_handle(command).terminate("by a test")
        await rejection
        await disrupt(stage.pools[CHECKED], NEVER)  # or emptiness would take the replacement that nothing uses
        await disrupt(stage.pools[LATE + CHEAPER], NEVER)
        await stage.release()

        async def end(key: str) -> None:
            pool, old, moment = stage.pools[key], value.old[key], moment_of(key)
            if key == CHECKED:
                await undone(pool, old, nodes=2)
            elif key == moment:
                await value.completed(key)
            elif moment in CONSOLIDATIONS:
                await undone(pool, old)
                await pool.running(2)
            else:
                await value.completed(key)
                assert await pool.events(f"{pool.name}-late", "Evicted") == [], "a drain leaves it alone"
            if key != moment:
                await pool.delete_pod("late")

        yield await value.outcomes(end)


def outcome(outcomes: Outcomes, key: str) -> tuple[int, int]:
    """How many NodeClaims and instances a pool had in all."""
    ended = outcomes[key]
    if isinstance(ended, BaseException):
        raise ended
    return ended


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_command_whose_process_is_killed_completes_once(killed: Outcomes, moment: str) -> None:
    """One replacement was bought and took over."""
    assert outcome(killed, moment) == (2, 2)


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_command_that_is_terminated_completes_once_or_is_undone_once(met: Outcomes, moment: str) -> None:
    """One that is terminated before its last step leaves its replacement unused.

    Where a terminated command has left its node in place, the next command uses the replacement or buys it.
    """
    assert outcome(met, moment) == (2, 2)


@pytest.mark.parametrize("moment", ARRIVALS)
async def test_a_pod_that_arrives_on_a_candidate_undoes_a_consolidation_only(met: Outcomes, moment: str) -> None:
    """A consolidation ends at its validation or is undone, and its replacement goes again. A drifted node leaves."""
    assert outcome(met, LATE + moment) == (ARRIVALS[moment], ARRIVALS[moment])


async def test_dis_65_without_capacity_for_the_replacement_the_node_stays_and_is_freed(
    make_pool: MakePool, observe: Observe, ec2: Ec2Admin
) -> None:
    """The pod never moves."""
    pool = await make_pool(requirements=SMALL, consolidate_after="Never")
    async with observe(pool) as observations:
        name = await one_node(pool, False)
        (pod,) = await pool.running(1)
        ec2.capacity(0)
        await drift(pool)
        await pool.observer(name, "DisruptionWaitingReadiness")  # the command may be over a moment later
        await undone(pool, name)
        ec2.clear_capacity()
        assert [item["metadata"]["uid"] for item in await pool.running(1)] == [pod["metadata"]["uid"]]
        assert seen_of(observations, pool) == (2, 1)
        await pool.scale(0)
        await disrupt(pool, AT_ONCE)
