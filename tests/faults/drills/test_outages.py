"""Temporal, the API server and EC2 are away for a while: the worker outlives it, says so, and does nothing twice.

Each outage begins when one node is live, one is being launched and one is drained, and pods come while it lasts.
"""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections import Counter
from dataclasses import dataclass

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS
from sandbox.cluster import Sandbox
from sandbox.ec2.client import Ec2Admin
from sandbox.faults.apiproxy import ApiProxy
from tests.e2e.conftest import MakePool
from tests.e2e.pools import SMALL, Pool, condition
from tests.e2e.worker_process import WorkerProcess
from tests.faults.conftest import Observe
from tests.faults.observer import Observer
from tests.workflows.waiting import until

PROCESSES = ("io", "cluster")
AWAY = "has not answered since"
BACK_WITHIN = 150.0


def probe(sandbox: Sandbox, path: str) -> tuple[int, str]:
    """What a kubelet is answered by the worker's probe."""
    url = f"http://127.0.0.1:{sandbox.worker_env()['HEALTH_PROBE_PORT']}{path}"
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return int(answer.status), answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def told(worker: WorkerProcess, service: str) -> Counter[str]:
    """How often each process has said that a service is away."""
    lines = (line for line in worker.log.read_text(errors="replace").splitlines() if line.startswith("{"))
    entries = (entry for entry in map(json.loads, lines) if str(entry.get("service", "")).startswith(service))
    return Counter(entry["process"] for entry in entries if entry["message"] == "A service does not answer")


@dataclass
class Scene:
    """A NodePool for each thing that the outage meets."""

    live: Pool
    launching: Pool
    draining: Pool
    live_pods: set[str]
    drained: str

    @property
    def pools(self) -> tuple[Pool, ...]:
        """All of them."""
        return self.live, self.launching, self.draining

    async def judge(self, observer: Observer) -> None:
        """Everything that was wished for has come, and what was live is as it was; then all goes."""
        await self.draining.gone(self.drained, within=BACK_WITHIN)
        for pool in self.pools:
            await observer.whole(pool)
        assert {pod["metadata"]["uid"] for pod in await self.live.pods("web")} == self.live_pods
        assert {pool.name: observer.bought(pool) for pool in self.pools} == {
            self.live.name: 2,
            self.launching.name: 1,
            self.draining.name: 2,
        }
        await self.live.scale(0, "web")
        await self.live.scale(0, "late")
        await self.launching.scale(0)
        await self.draining.scale(0)


async def pools_of(make_pool: MakePool) -> tuple[Pool, Pool, Pool]:
    """Three pools for a scene."""
    # The node that the drained pod is to move to is empty until the ReplicaSet controller, which the outage stops too,
    # has created the pod again.
    after = ("5s", "5s", "60s")
    make_pools = await asyncio.gather(*(make_pool(requirements=SMALL, consolidate_after=item) for item in after))
    return make_pools[0], make_pools[1], make_pools[2]


async def enter(pools: tuple[Pool, Pool, Pool], observer: Observer, ec2: Ec2Admin, api: ApiProxy) -> Scene:
    """One node is live, an eviction from another is under way, and so is the answer to a fleet request."""
    live, launching, draining = pools
    for pool in (live, draining):
        await pool.deploy(1)
    (pod,) = await live.running(1)
    await draining.running(1)
    await live.settled(1)
    (claim,) = await draining.settled(1)
    name = claim["metadata"]["name"]
    observer.may_move(draining)
    api.hold("POST", f"/pods/{draining.name}-[^/]+/eviction", count=None)  # a drain that waits too long asks again
    await draining.kube.delete(NODECLAIMS, name)
    await draining.settled(2)  # the node that its pod is to move to
    ec2.hold("CreateFleet", after_effect=True)
    await launching.deploy(1)

    async def both_held() -> bool:
        return await asyncio.to_thread(lambda: (api.held(), ec2.held())) == (1, 1)

    await until(both_held)
    return Scene(live, launching, draining, {pod["metadata"]["uid"]}, name)


async def both_unready(sandbox: Sandbox, worker: WorkerProcess, service: str, before: Counter[str]) -> None:
    """Wait until both processes say on the probe and in the log that a service is away; both are alive."""

    async def unready() -> bool:
        status, text = await asyncio.to_thread(probe, sandbox, "/readyz")
        sentences = text.split("; ")
        on_probe = all(any(s.startswith(f"{name}: {service}") and AWAY in s for s in sentences) for name in PROCESSES)
        in_log = told(worker, service) - before
        return status == 503 and on_probe and all(in_log[name] for name in PROCESSES)

    try:
        await until(unready)
    except TimeoutError:
        probes = probe(sandbox, "/readyz"), told(worker, service) - before
        raise AssertionError(f"not both processes said that {service} is away: {probes}") from None
    assert probe(sandbox, "/healthz") == (200, "ok\n")


async def ready_again(sandbox: Sandbox) -> None:
    """Wait until /readyz is content."""

    async def ready() -> bool:
        return (await asyncio.to_thread(probe, sandbox, "/readyz"))[0] == 200

    try:
        await until(ready)
    except TimeoutError:
        raise AssertionError(f"never ready again: {probe(sandbox, '/readyz')}") from None


async def test_temporal_is_away(
    make_pool: MakePool, observe: Observe, worker: WorkerProcess, sandbox: Sandbox, ec2: Ec2Admin, api: ApiProxy
) -> None:
    """Live, not ready, one line a minute from each process; afterwards each claim has one instance and all pods run."""
    pools = await pools_of(make_pool)
    async with observe(*pools) as observations:
        scene = await enter(pools, observations, ec2, api)
        before = told(worker, "Temporal")
        await asyncio.to_thread(sandbox.stop_component, "temporal")
        try:
            await both_unready(sandbox, worker, "Temporal", before)
            ec2.release()  # both are answered while Temporal cannot be told of it
            api.release()
            await scene.live.deploy(1, "late")
        finally:
            await asyncio.to_thread(sandbox.start_component, "temporal")
        await ready_again(sandbox)
        assert worker.running
        counts = told(worker, "Temporal") - before
        assert max(counts.values()) <= 2, f"the outage fills the log: {counts}"
        await scene.judge(observations)


async def test_the_api_server_is_away(
    make_pool: MakePool, observe: Observe, worker: WorkerProcess, sandbox: Sandbox, ec2: Ec2Admin, api: ApiProxy
) -> None:
    """As with Temporal; what was asked of EC2 before the outage is found again after it, and not bought twice."""
    pools = await pools_of(make_pool)
    service = "The Kubernetes API server"
    async with observe(*pools) as observations:
        scene = await enter(pools, observations, ec2, api)
        before = told(worker, service)
        await asyncio.to_thread(sandbox.stop_component, "kube-apiserver")
        try:
            ec2.release()  # the claim cannot be marked with what was bought for it
            api.release()
            await both_unready(sandbox, worker, service, before)
        finally:
            await asyncio.to_thread(sandbox.start_component, "kube-apiserver")
        await scene.live.deploy(1, "late")
        await ready_again(sandbox)
        assert worker.running
        counts = told(worker, service) - before
        assert max(counts.values()) <= 2, f"the outage fills the log: {counts}"
        await scene.judge(observations)


async def test_ec2_is_away(
    make_pool: MakePool, observe: Observe, worker: WorkerProcess, sandbox: Sandbox, ec2: Ec2Admin, kube: Kube
) -> None:
    """Live nodes stay, new claims wait and say why, deleted ones end afterwards; the worker stays ready."""
    live, waiting, deleted = await pools_of(make_pool)
    async with observe(live, waiting, deleted) as observations:
        await live.deploy(1)
        (pod,) = await live.running(1)
        (claim,) = await live.settled(1)
        ec2.fault("*", "ServiceUnavailable", status=503, count=None)
        await waiting.deploy(1)
        await deleted.deploy(1)

        async def refused() -> bool:
            claims = [*await waiting.claims(), *await deleted.claims()]
            conditions = [condition(item, "Launched") for item in claims]
            return len(claims) == 2 and all(
                "ServiceUnavailable" in str(condition.get("message")) for condition in conditions
            )

        await until(refused)
        name = (await deleted.claim())["metadata"]["name"]
        await deleted.scale(0)
        await kube.delete(NODECLAIMS, name)
        await ready_again(sandbox)  # a loaded machine makes it late, but EC2's absence does not make it unready
        (same,) = await live.claims()
        assert same["metadata"]["uid"] == claim["metadata"]["uid"]
        assert condition(same, "Ready").get("status") == "True"
        assert await kube.get(NODECLAIMS, name) is not None, "nobody asked EC2 whether an instance was bought"

        ec2.clear_faults()
        await deleted.gone(name, within=BACK_WITHIN)
        await observations.whole(waiting)
        await observations.whole(live)
        assert (observations.bought(waiting), observations.bought(deleted), observations.bought(live)) == (1, 0, 1)
        assert {pod["metadata"]["uid"] for pod in await live.pods()} == {pod["metadata"]["uid"]}
        await live.scale(0)
        await waiting.scale(0)
