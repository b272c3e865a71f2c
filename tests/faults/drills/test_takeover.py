"""`tenon takeover` and `tenon handback` under load, killed in each step: the move buys, ends and evicts nothing.

Karpenter is the real v1.15.0 with its KWOK provider: its Deployment, its elections and its Lease are its own. It
manages nodes of its own kind only, so `tests.e2e.upstream` makes the nodes on EC2 that change hands, in the form that
Karpenter's AWS provider writes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest_asyncio
import yaml

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import CONFIGMAPS, DEPLOYMENTS, LEASES, PODS
from benchmarks.comparison import upstream as kwok
from benchmarks.running import Autoscaler
from cli.switching.memory import NAME as MEMORY
from sandbox import kubeconfig
from sandbox.cluster import Sandbox
from sandbox.faults.apiproxy import ApiProxy
from sandbox.ports import free_ports
from tests.e2e.other_worker import in_thread, without
from tests.e2e.pools import NAMESPACE, WITHIN, Pool, clear, leaving
from tests.e2e.upstream import LEASE, Karpenter
from tests.e2e.worker_process import WorkerProcess, environment
from tests.faults.deployed import Deployed
from tests.workflows.waiting import until

NODES_BEFORE = 3
RUN_SECONDS = 280


@dataclass
class Cluster:
    """A cluster whose controllers are Deployments, and its nodes."""

    kube: Kube
    sandbox: Sandbox
    nodes: Karpenter
    karpenter: Deployed
    tenon: Deployed
    stays: dict[str, str] = field(default_factory=dict)
    """Name -> UID of the pods that no change of controllers may move."""

    @property
    def pool(self) -> Pool:
        return self.nodes.pool

    async def holder(self, namespace: str) -> str:
        lease = await self.kube.get(LEASES, LEASE, namespace)
        return str((lease or {}).get("spec", {}).get("holderIdentity") or "")

    async def is_whole(self) -> None:
        """Assert that nodes and pods are those from the beginning, and that nothing marks a node for its end."""
        instances = self.pool.instances()
        assert {instance["id"] for instance in instances} == set(self.nodes.bought.values()), "nothing was bought"
        assert {instance["state"] for instance in instances} == {"running"}, "nothing was ended"
        pods = await self.kube.list(PODS, namespace=NAMESPACE)
        present = {p["metadata"]["name"]: p["metadata"]["uid"] for p in pods if not leaving(p)}
        assert self.stays.items() <= present.items(), "no pod was evicted"
        for node in await self.pool.nodes():
            assert not node["spec"].get("unschedulable")
            assert "karpenter.sh/disrupted" not in {taint["key"] for taint in node["spec"].get("taints") or ()}


def karpenters_process(sandbox: Sandbox) -> Autoscaler:
    """Upstream's process with its own election; Tenon's CRDs serve what it reads, except its own class."""
    program = kwok.KARPENTER.ensure()
    module = kwok.KARPENTER.module_folder(kwok.MODULE)
    sandbox.kubectl(
        "apply", "--server-side", *(f"--filename={f}" for f in sorted(module.glob("kwok/apis/crds/*.yaml")))
    )
    sandbox.apply(kwok.identity())
    token = sandbox.kubectl("create", "token", kwok.NAME, f"--namespace={kwok.NAME}", "--duration=24h").strip()
    file = sandbox.layout.root / f"{kwok.NAME}.kubeconfig"
    kubeconfig.with_token(
        file, sandbox.kubernetes_endpoint, (sandbox.layout.pki / "ca.crt").read_bytes(), token, kwok.NAME
    )
    metrics, health = free_ports(2)
    settings = kwok.environment(file, metrics, health)
    settings |= {"DISABLE_LEADER_ELECTION": "false", "LEADER_ELECTION_NAMESPACE": kwok.NAME}
    return Autoscaler("upstream Karpenter", (str(program),), sandbox.logs / f"{kwok.NAME}.log", settings)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def cluster(sandbox: Sandbox, kube: Kube, worker: WorkerProcess) -> AsyncIterator[Cluster]:
    """Karpenter leads, Tenon stands by, and three nodes have pods."""
    tenons = WorkerProcess(sandbox, "switched-worker", replica=1)
    tenon = Deployed(kube, "tenon", "tenon", tenons.start, tenons.stop)
    pool = Pool(kube, sandbox, f"takeover-{datetime.now(UTC):%H%M%S}")
    nodes = Karpenter(kube, sandbox, pool)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(clear, pool)  # last, because the usual worker ends the nodes
        await stack.enter_async_context(in_thread(without(worker)))
        process = await asyncio.to_thread(karpenters_process, sandbox)
        karpenter = Deployed(kube, kwok.NAME, kwok.NAME, process.start, process.stop)
        cluster = Cluster(kube, sandbox, nodes, karpenter, tenon)
        stack.push_async_callback(kube.delete, LEASES, LEASE, namespace=kwok.NAME)
        await nodes.set_up()
        claims = await asyncio.gather(*(nodes.node(f"n{number}") for number in range(NODES_BEFORE)))
        for number, claim in enumerate(claims):
            hostname = {"kubernetes.io/hostname": claim["status"]["nodeName"]}
            pod = await pool.pod(f"stays{number}", nodeSelector=hostname)
            cluster.stays[pod["metadata"]["name"]] = pod["metadata"]["uid"]
        await pool.running(NODES_BEFORE)
        async with karpenter.running(), tenon.running():
            await karpenter.create(1)
            await until(lambda: _leads(cluster, karpenter.namespace), within=WITHIN)
            await tenon.create(1)
            await until(lambda: _stands_by(tenons), within=WITHIN)
            yield cluster
            await kube.delete(CONFIGMAPS, MEMORY, namespace="tenon")


def through(proxy: ApiProxy, sandbox: Sandbox) -> Path:
    """The kubeconfig of an administrator behind the proxy, which passes tokens on and no certificates."""
    document = yaml.safe_load((sandbox.layout.root / f"{kwok.NAME}.kubeconfig").read_text())
    document["clusters"][0]["cluster"]["server"] = proxy.endpoint
    file = sandbox.layout.root / "administrator-behind-proxy.kubeconfig"
    file.write_text(yaml.safe_dump(document))
    return file


async def _leads(cluster: Cluster, namespace: str) -> bool:
    return bool(await cluster.holder(namespace))


async def _stands_by(worker: WorkerProcess) -> bool:
    if not worker.running:
        return False
    with contextlib.suppress(OSError):
        return await asyncio.to_thread(worker.metric, "tenon_standing_by") == 1
    return False


@pytest_asyncio.fixture(loop_scope="session")
async def load(cluster: Cluster) -> AsyncIterator[Callable[[], int]]:
    """Small pods come and go on the nodes all the time; how many changes there were."""
    pool, changes = cluster.pool, 0
    await pool.deploy(1, app="load", cpu="100m")

    async def change() -> None:
        nonlocal changes
        while True:
            count = 1 + changes % 4
            await pool.scale(count, app="load")
            await pool.running(count, app="load")
            changes += 1

    changing = asyncio.create_task(change())
    yield lambda: changes
    changing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await changing
    await cluster.kube.delete(DEPLOYMENTS, f"{pool.name}-load", namespace=NAMESPACE, propagation="Background")


@dataclass
class Guides:
    """Runs a command again and again, and kills it in each of its steps."""

    sandbox: Sandbox
    kubeconfig: str
    kills: int = 0
    _killed_after: set[str] = field(default_factory=set)

    def finished(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run it until it ends by itself. Each sentence that it reports kills it once, as soon as it is there."""
        while True:
            process = self.start(*arguments)
            lines = []
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(line)
                sentence = line.partition("  ")[2]
                if line[:2].isdigit() and sentence not in self._killed_after:
                    self._killed_after.add(sentence)
                    self.kills += 1
                    process.kill()
                    break
            rest, errors = process.communicate(timeout=RUN_SECONDS)
            if process.returncode != -9:
                return subprocess.CompletedProcess(arguments, process.returncode, "".join(lines) + rest, errors)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start it as an administrator of the cluster."""
        env = environment(
            self.sandbox,
            KUBECONFIG=self.kubeconfig,
            TENON_SANDBOX_DIR=str(self.sandbox.layout.root / "none"),
            COLUMNS="200",
            PYTHONUNBUFFERED="1",
        )
        command = [sys.executable, "-m", "cli", *arguments]
        return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


async def test_a_takeover_that_is_killed_in_each_step_buys_ends_and_evicts_nothing(
    cluster: Cluster, load: Callable[[], int]
) -> None:
    guides = Guides(cluster.sandbox, str(cluster.sandbox.kubeconfig))
    before = load()
    done = await asyncio.to_thread(guides.finished, "takeover", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert guides.kills >= 4, done.stdout
    assert "Nothing was bought or ended" in done.stdout
    assert (await cluster.holder("tenon")).startswith("tenon/")
    assert (await cluster.karpenter.read())["spec"]["replicas"] == 0
    await cluster.is_whole()
    changes = load()
    assert changes > before, "pods came and went meanwhile"

    async def more_load() -> bool:
        return load() > changes + 4

    await until(more_load, within=WITHIN)
    await cluster.is_whole()


async def test_a_handback_that_is_killed_in_each_step_buys_ends_and_evicts_nothing(
    cluster: Cluster, load: Callable[[], int]
) -> None:
    guides = Guides(cluster.sandbox, str(cluster.sandbox.kubeconfig))
    before = load()
    done = await asyncio.to_thread(guides.finished, "handback", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr
    assert guides.kills >= 4, done.stdout
    assert "Nothing was bought or ended" in done.stdout
    assert await cluster.holder(kwok.NAME)
    assert (await cluster.tenon.read())["spec"]["replicas"] == 0
    assert not await cluster.tenon.pods()
    await cluster.is_whole()
    for obj in (*await cluster.pool.claims(), *await cluster.pool.nodes()):
        metadata = obj["metadata"]
        marks = (*metadata["labels"], *metadata["annotations"])
        assert not [key for key in marks if key.startswith("tenon.sh/")]
    assert load() > before


async def test_a_guide_killed_after_it_scaled_and_before_it_remembered_goes_on(cluster: Cluster) -> None:
    """Karpenter is scaled to 0, and nobody knows why: the next run does, and Tenon, which was stopped, is started."""
    with ApiProxy.start(cluster.sandbox) as proxy:
        proxy.hold("PATCH", f"/deployments/{kwok.NAME}$", after_effect=True)
        guides = Guides(cluster.sandbox, str(through(proxy, cluster.sandbox)))
        process = guides.start("takeover", "--yes")

        async def scaled() -> bool:
            return proxy.held() == 1

        await until(scaled, within=WITHIN)
        process.kill()
        process.wait()
        proxy.release()
    assert (await cluster.karpenter.read())["spec"]["replicas"] == 0
    guides = Guides(cluster.sandbox, str(cluster.sandbox.kubeconfig))
    done = await asyncio.to_thread(guides.finished, "takeover", "--yes", "-o", "json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["outcome"], document["bought"], document["ended"]) == ("done", [], [])
    await cluster.is_whole()
    back = await asyncio.to_thread(guides.finished, "handback", "--yes")
    assert back.returncode == 0, back.stdout + back.stderr


async def test_karpenter_leads_again_if_tenon_does_not_become_healthy(cluster: Cluster) -> None:
    cluster.tenon.works = False
    try:
        guides = Guides(cluster.sandbox, str(cluster.sandbox.kubeconfig))
        done = await asyncio.to_thread(guides.finished, "takeover", "--yes", "--timeout", "20s")
        assert done.returncode == 1, done.stdout + done.stderr
        assert "Went back: Tenon does not lead yet after 20s" in done.stderr
        assert await cluster.holder(kwok.NAME)
        assert (await cluster.karpenter.read())["spec"]["replicas"] == 1
        await cluster.is_whole()
    finally:
        cluster.tenon.works = True
