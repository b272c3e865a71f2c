"""A hundred live nodes pass to this commit's image and chart and back, while nodes launch and drain."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.client import Client

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS, PDBS
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tests.e2e.histories import failed_run, failed_task
from tests.e2e.pools import NAMESPACE, SMALL, Object, Pool, fresh_pool
from tests.faults.observer import LIVING, Observer, watching
from tests.image.container import stale
from tests.sandbox_clients import administrator, temporal_client
from tests.sandbox_fixture import BOOT_SECONDS
from tests.workflows.waiting import until

PREVIOUS = "PREVIOUS_RELEASE"
"""The environment variable that names the folder with the files of the release before this version."""
FLEET = {"staying": 56, "moved": 16, "guarded": 12, "batch": 16}
"""The pods of each app, one to a node: those of ``staying`` may not move, ``batch`` shrinks, nobody may evict
``guarded`` during a rollout.
"""
WAVES = 6
"""How often in a rollout pods come and go, at most."""
MORE = 5
"""The pods that each of them adds."""
SLOW_BOOT = 20.0
"""Seconds in which a new instance becomes a Node during a rollout, so that launches are under way all the time."""
WITHIN = 400.0


@pytest.fixture(scope="module")
def sandbox(able: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A sandbox of its own, in which the previous version is installed."""
    if PREVIOUS not in os.environ:
        pytest.skip(f"0.1.0 is the first release. For later ones, {PREVIOUS} names a folder with the release before.")
    earlier = Path(os.environ[PREVIOUS])
    (image,), (chart,) = earlier.glob("tenon-image-*.tar"), earlier.glob("tenon-[0-9]*.tgz")
    if reason := stale():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("upgrade")
    with Sandbox.start(folder / "state", boot_delay=BOOT_SECONDS, kubelet=True) as running:
        running.install(image, chart=chart)
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def kube(sandbox: Sandbox) -> AsyncIterator[Kube]:
    """The administrator's view of the cluster."""
    async with administrator(sandbox) as client:
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def client(sandbox: Sandbox) -> Client:
    """A client of the sandbox's Temporal."""
    return await temporal_client(sandbox)


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
    replicas: dict[str, int] = field(default_factory=lambda: dict(FLEET))
    leaving: set[str] = field(default_factory=set)
    """NodeClaims that were deleted."""

    async def start(self) -> None:
        """Run every pod on a node of its own."""
        for app in ("moved", "guarded"):
            self.observer.may_move(self.pool, app)
        await asyncio.gather(*(self.pool.deploy(count, app) for app, count in self.replicas.items()))
        await self.pool.running(sum(self.replicas.values()), within=WITHIN)

    async def blocked_drains(self, count: int) -> None:
        """Delete nodes whose pods nobody may evict, and wait until their drains have begun."""
        claims = await self._delete_nodes("guarded", count)

        async def all_drain() -> bool:
            tainted = [node for node in await self.pool.nodes() if _is_tainted(node)]
            owners = {owner["name"] for node in tainted for owner in node["metadata"]["ownerReferences"]}
            return claims <= owners

        await until(all_drain, within=WITHIN)

    async def wave(self) -> None:
        """New nodes are needed, one with a pod is drained, and one becomes empty."""
        self.replicas["staying"] += MORE
        self.replicas["batch"] -= 1
        await asyncio.gather(*(self.pool.scale(self.replicas[app], app) for app in ("staying", "batch")))
        await self._delete_nodes("moved", 1)

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


async def roll(load: Load, replace: Callable[[], None]) -> None:
    """Replace the worker's pods while nodes launch and drain, and wait until all is settled."""
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


@dataclass
class Histories:
    """What all workflows of the namespace did since a moment."""

    runs: int = 0
    tasks: Counter[str] = field(default_factory=Counter)
    """Why workflow tasks failed."""
    ended: Counter[str] = field(default_factory=Counter)
    """Why runs failed."""

    @classmethod
    async def since(cls, client: Client, began: datetime) -> Histories:
        result = cls()
        async for execution in client.list_workflows():
            history = await client.get_workflow_handle(execution.id, run_id=execution.run_id).fetch_history()
            events = [event for event in history.events if event.event_time.ToDatetime(UTC) >= began]
            result.runs += bool(events)
            for event in events:
                for why, where in ((failed_task(event), result.tasks), (failed_run(event), result.ended)):
                    where.update([f"{execution.workflow_type}: {why}"] if why else [])
        print(result)  # the figures of docs/operations.md
        return result


@asynccontextmanager
async def rolled(sandbox: Sandbox, kube: Kube) -> AsyncIterator[None]:
    """A hundred nodes that pass to this version and back; nothing is lost or bought twice."""
    before = images(sandbox)
    async with (
        fresh_pool(kube, sandbox, consolidate_after="1s", requirements=SMALL) as pool,
        watching(kube, sandbox, pool) as observer,
    ):
        load = Load(pool, sandbox, observer)
        await load.start()
        await load.settled()
        await roll(load, sandbox.install)
        assert images(sandbox).isdisjoint(before)
        yield
        await roll(load, sandbox.rollback)
        assert images(sandbox) == before
        observer.judge(pool)
        assert observer.bought(pool) == len(observer.claims)
        assert sandbox.ec2().rejections() == []


@pytest.mark.timeout(1500)
async def test_a_hundred_nodes_pass_to_this_version_and_back_without_a_failed_task_or_run(
    sandbox: Sandbox, kube: Kube, client: Client
) -> None:
    began = datetime.now(UTC)
    async with rolled(sandbox, kube):
        pass
    histories = await Histories.since(client, began)
    assert histories.runs > sum(FLEET.values())
    assert (histories.tasks, histories.ended) == (Counter(), Counter())
