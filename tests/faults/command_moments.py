"""Brings disruption commands of several NodePools to a step each, so that one fault meets all of them.

A test then kills a process, terminates the commands, or lets a pod arrive on each candidate. Each command must complete
once or be undone once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TypeAlias

from temporalio.client import Client
from temporalio.service import RPCError

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS, NODEPOOLS, NODES
from sandbox.cluster import Sandbox
from sandbox.ec2.client import Ec2Admin
from sandbox.faults.apiproxy import ApiProxy
from tenon.apis import labels
from tests.e2e.conftest import NewPool
from tests.e2e.pools import NAMESPACE, SMALL, Pool, condition
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
    await until(lambda: marked(pool, claim))


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
            try:
                commands = await disruption.query(DisruptionWorkflow.open_commands)
            except RPCError:  # no worker answered in time
                return False
            result[:] = [entry.command for entry in commands.values() if entry.pool == self.pools[key].name]
            return bool(result)

        await until(given)
        return result[0]

    async def held(self, *, api: int = 0, ec2: int = 0) -> None:
        """Wait until so many calls are held."""

        async def all_held() -> bool:
            hold = await asyncio.to_thread(self.api.held), await asyncio.to_thread(self.ec2.held)
            return hold[0] >= api and hold[1] >= ec2

        await until(all_held)

    async def claims(self, key: str, count: int) -> None:
        """Wait until a pool has so many NodeClaims."""

        async def there() -> bool:
            return len(await self.pools[key].claims()) == count

        await until(there)

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
        if len(claims) != nodes or any(labels.REPLACEMENT_FOR in item["metadata"]["annotations"] for item in claims):
            return False
        return not await marked(pool, old)

    await until(free, within=LONG)


def seen_of(observed: Observer, pool: Pool) -> tuple[int, int]:
    """How many NodeClaims and how many instances were ever seen of a pool."""
    return sum(name.startswith(f"{pool.name}-") for name in observed.claims), observed.bought(pool)


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


@dataclass(frozen=True)
class CommandsAtMoments:
    """Brings commands to their moments: ``async with at_moments(keys, staying) as commands``."""

    new_pool: NewPool
    kube: Kube
    sandbox: Sandbox
    api: ApiProxy
    client: Client

    @asynccontextmanager
    async def __call__(self, keys: Collection[str], staying: Collection[str]) -> AsyncIterator[Set]:
        """A command for each key. The pods at those of ``staying`` must not be evicted."""
        async with AsyncExitStack() as stack:
            expected = [ON_DEMAND if moment_of(key) in CONSOLIDATIONS else SMALL for key in keys]
            making = [self.new_pool(requirements=types, consolidate_after="Never") for types in expected]
            created = await asyncio.gather(*map(stack.enter_async_context, making))
            pools = dict(zip(keys, created, strict=True))
            observed = await stack.enter_async_context(watching(self.kube, self.sandbox, *pools.values()))
            for key in pools.keys() - set(staying):
                observed.may_move(pools[key])
            consolidated = [moment_of(key) in CONSOLIDATIONS for key in keys]
            names = await asyncio.gather(*map(one_node, created, consolidated))
            stage = Stage(pools, self.api, self.sandbox.ec2(), self.client, self.sandbox.cluster_name)
            stack.push_async_callback(stage.release)  # or the pools could not be cleared, and a failure not be read
            await stage.set()
            yield Set(stage, observed, dict(zip(pools, names, strict=True)))


def outcome(result: Outcomes, key: str) -> tuple[int, int]:
    """How many NodeClaims and instances a pool had in all."""
    ended = result[key]
    if isinstance(ended, BaseException):
        raise ended
    return ended
