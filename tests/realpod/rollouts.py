"""A rollout of the worker's pods while nodes launch, rest, drain and end, and what must not happen then.

``TENON_DRILL_NODES=40`` has fewer nodes than a hundred, for a machine that is busy with other things too.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from activities.kubernetes.resources import NODECLAIMS, PDBS
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tenon.messages.node import Poke
from tests.e2e.histories import failed_run, failed_task, kind
from tests.e2e.pools import NAMESPACE, SMALL, Object, Pool, fresh_pool
from tests.faults.observer import LIVING, Observer, watching
from tests.sandbox_clients import administrator, temporal_client
from tests.sandbox_fixture import BOOT_SECONDS
from tests.workflows.waiting import until
from worker.runtime.temporal.worker_versions import LEAVE_WITHIN
from workflows import names as workflow_names
from workflows.nodeclaim import NodeClaimWorkflow

NODES = int(os.environ.get("TENON_DRILL_NODES", "100"))
_FEW = {"moved": max(4, 16 * NODES // 100), "guarded": max(4, 12 * NODES // 100), "batch": 16}
FLEET = {"staying": NODES - sum(_FEW.values()), **_FEW}
"""The pods of each app, one to a node: those of ``staying`` may not move, ``batch`` shrinks, nobody may evict
``guarded`` during a rollout.
"""
WAVES = 6
"""How often in a rollout pods come and go, at most."""
MORE = max(1, NODES // 20)
"""The pods that each of them adds."""
SLOW_BOOT = 20.0
"""Seconds in which a new instance becomes a Node during a rollout, so that launches are under way all the time."""
WITHIN = 400.0
ANSWERS_WITHIN = 60.0
"""Seconds in which a worker takes a workflow task, also on a busy machine. One without a worker waits far longer."""


def workers(sandbox: Sandbox) -> list[Object]:
    """The worker's pods."""
    listed = json.loads(sandbox.kubectl("get", "pods", "--namespace=tenon", "--output=json"))
    manifests: list[Object] = listed["items"]
    return manifests


def images(sandbox: Sandbox) -> set[str]:
    """The images of the worker's pods."""
    return {pod["spec"]["containers"][0]["image"] for pod in workers(sandbox)}


@dataclass
class Load:
    """Nodes that come and go during a rollout."""

    pool: Pool
    sandbox: Sandbox
    observer: Observer
    client: Client
    replicas: dict[str, int] = field(default_factory=lambda: dict(FLEET))
    leaving: set[str] = field(default_factory=set)
    """NodeClaims that were deleted."""
    resting: tuple[str, ...] = ()
    """NodeClaims of which nothing is asked but an answer."""

    async def start(self) -> None:
        """Run every pod on a node of its own."""
        for app in ("moved", "guarded"):
            self.observer.may_move(self.pool, app)
        await asyncio.gather(*(self.pool.deploy(count, app) for app, count in self.replicas.items()))
        await self.pool.running(sum(self.replicas.values()), within=WITHIN)
        pods = await self.pool.pods("staying")
        self.resting = tuple(await asyncio.gather(*(self.pool.claim_of(pod) for pod in pods)))

    async def blocked_drains(self, count: int) -> None:
        """Delete nodes whose pods nobody may evict, and wait until their drains have begun."""
        claims = await self._delete_nodes("guarded", count)

        async def all_drain() -> bool:
            tainted = [node for node in await self.pool.nodes() if _is_tainted(node)]
            owners = {owner["name"] for node in tainted for owner in node["metadata"]["ownerReferences"]}
            return claims <= owners

        await until(all_drain, within=WITHIN)

    async def wave(self) -> None:
        """New nodes are needed, one with a pod is drained, one becomes empty, and those at rest get a signal."""
        self.replicas["staying"] += MORE
        self.replicas["batch"] -= 1
        await asyncio.gather(*(self.pool.scale(self.replicas[app], app) for app in ("staying", "batch")))
        await self._delete_nodes("moved", 1)
        await asyncio.gather(*(self._poke(claim) for claim in self.resting))

    async def waves_during(self, rollout: asyncio.Task[None]) -> int:
        """Begin a wave each time that a pod of the worker comes, becomes ready or goes; the number of waves."""
        done, looks = 0, set[str]()

        async def changed() -> bool:
            pods = await asyncio.to_thread(workers, self.sandbox)
            look = str(sorted((pod["metadata"]["name"], _is_ready(pod)) for pod in pods))
            new = look not in looks
            looks.add(look)
            return new or rollout.done()

        while done < WAVES and not rollout.done():
            await until(changed, within=WITHIN)
            await self.wave()
            done += 1
        return done

    async def settled(self) -> None:
        """Wait until every pod runs, and the nodes that were to go are gone, with their instances."""
        for app, count in self.replicas.items():
            await self.pool.running(count, app, within=WITHIN)
        names: list[str] = []

        async def no_more() -> bool:
            claims = {claim["metadata"]["name"] for claim in await self.pool.claims()}
            living = {instance["id"] for instance in self.pool.instances() if instance["state"] in LIVING}
            pods = sum(self.replicas.values())
            names[:] = [f"{len(claims)} claims, {len(living)} instances, {pods} pods", *(claims & self.leaving)]
            return not claims & self.leaving and len(claims) == len(living) == pods

        try:
            await until(no_more, within=WITHIN)
        except TimeoutError:
            raise AssertionError(f"it did not settle: {names}") from None

    async def drain_one(self) -> str:
        """Delete a node whose pod may move, and return its NodeClaim's name once it is gone."""
        (claim,) = await self._delete_nodes("moved", 1)
        await self.pool.gone(claim, within=WITHIN)
        return claim

    async def _poke(self, claim: str) -> None:
        handle = self.client.get_workflow_handle(workflow_names.nodeclaim_id(self.sandbox.cluster_name, claim))
        await handle.signal(NodeClaimWorkflow.poke, Poke(node_ready=True))

    async def _delete_nodes(self, app: str, count: int) -> set[str]:
        """Delete the NodeClaims of nodes that run an app; their names."""
        names = set[str]()
        for pod in await self.pool.pods(app):
            if pod["status"]["phase"] != "Running":
                continue
            claim = await self.pool.claim_of(pod)
            if claim not in self.leaving | names:
                names.add(claim)
            if len(names) == count:
                break
        assert len(names) == count
        self.leaving |= names
        await asyncio.gather(*(self.pool.kube.delete(NODECLAIMS, name) for name in names))
        return names


def _is_tainted(node: Object) -> bool:
    return any((taint["key"], taint["effect"]) == labels.DISRUPTED_TAINT for taint in node["spec"].get("taints") or [])


def _is_ready(pod: Object) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions") or [])


@asynccontextmanager
async def live_nodes(sandbox: Sandbox) -> AsyncIterator[Load]:
    """A fleet of live nodes. Whatever is done to it, no pod may be lost, and no instance bought twice."""
    async with (
        administrator(sandbox) as kube,
        fresh_pool(kube, sandbox, consolidate_after="1s", requirements=SMALL) as pool,
        watching(kube, sandbox, pool) as observer,
    ):
        load = Load(pool, sandbox, observer, await temporal_client(sandbox))
        await load.start()
        await load.settled()
        yield load
        observer.judge(pool)
        assert observer.bought(pool) == len(observer.claims)
        assert sandbox.ec2().rejections() == []


async def roll(load: Load, replace: Callable[[], None]) -> None:
    """Replace the worker's pods while nodes launch and drain, and wait until all is settled and no earlier pod runs."""
    before = images(load.sandbox)
    budget = await load.pool.protect("guarded")
    await load.blocked_drains(3)
    ec2 = load.sandbox.ec2()
    ec2.boot(delay=SLOW_BOOT)
    await load.wave()
    rollout = asyncio.create_task(asyncio.to_thread(replace))
    during = await load.waves_during(rollout)
    await rollout
    assert during >= WAVES / 2
    ec2.boot(delay=BOOT_SECONDS)
    await load.pool.kube.delete(PDBS, budget, namespace=NAMESPACE)
    await load.settled()

    async def replaced() -> bool:
        return before.isdisjoint(await asyncio.to_thread(images, load.sandbox))

    await until(replaced, within=LEAVE_WITHIN.total_seconds() + 60.0)


@dataclass
class Histories:
    """What all workflows of the namespace did since a moment."""

    runs: int = 0
    tasks: Counter[str] = field(default_factory=Counter)
    """Why workflow tasks failed."""
    ended: Counter[str] = field(default_factory=Counter)
    """Why runs failed."""
    longest_wait: float = 0.0
    """Seconds that a workflow task waited for a worker."""

    @classmethod
    async def since(cls, client: Client, began: datetime) -> Histories:
        result = cls()
        async for execution in client.list_workflows():
            history = await client.get_workflow_handle(execution.id, run_id=execution.run_id).fetch_history()
            events = [event for event in history.events if event.event_time.ToDatetime(UTC) >= began]
            result.runs += bool(events)
            result.longest_wait = max(
                result.longest_wait, longest_wait(events, execution.close_time or datetime.now(UTC))
            )
            for event in events:
                for why, where in ((failed_task(event), result.tasks), (failed_run(event), result.ended)):
                    where.update([f"{execution.workflow_type}: {why}"] if why else [])
        print(result)  # the figures of docs/operations.md
        return result


def longest_wait(events: Sequence[HistoryEvent], end: datetime) -> float:
    """The most seconds from the moment that a run needs a worker until one has its task, or until the end of the run.

    A task that its worker does not take in time is offered again, and waits all the while.
    """
    waits, scheduled = [0.0], None
    for event in events:
        time = event.event_time.ToDatetime(UTC)
        match kind(event):
            case "WORKFLOW_TASK_SCHEDULED":
                scheduled = scheduled or time
            case "WORKFLOW_TASK_STARTED" if scheduled is not None:
                waits.append((time - scheduled).total_seconds())
                scheduled = None
    if scheduled is not None:
        waits.append((end - scheduled).total_seconds())
    return max(waits)
