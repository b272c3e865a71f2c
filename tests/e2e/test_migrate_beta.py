"""From Karpenter 0.37 to Tenon by `tenon takeover`: claims, nodes and tags of v1beta1's age (docs/migrate.md).

One story in several tests, each beginning where the one before ended; `upstream_beta` plays that Karpenter.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial

import pytest_asyncio
from temporalio.client import Client

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import CONFIGMAPS, CRDS, NODES
from cli.switching.definitions import stored_as_v1beta1
from cli.switching.memory import NAME as MEMORY
from sandbox.bootstrap import DEPLOY
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tenon.apis.hashing import EC2NODECLASS_VERSION, NODEPOOL_VERSION
from tenon.apis.versions.definitions import NAMES
from tests.e2e.pools import Pool, clear, condition
from tests.e2e.upstream_beta import DISRUPTING, MAX_PODS, OldKarpenter
from tests.e2e.upstream_story import Story
from tests.e2e.worker import Worker
from tests.e2e.worker_process import environment
from tests.faults.deployed import Deployed
from tests.faults.sweeping import sweep
from tests.workflows.waiting import until


async def store_v1beta1(kube: Kube) -> None:
    """The definitions as Karpenter 0.37 has them: nothing converts."""
    for name in NAMES:
        definition = await kube.get(CRDS, name) or {}
        versions = [version["name"] for version in definition["spec"]["versions"]]
        change = [
            {"op": "replace", "path": f"/spec/versions/{at}/storage", "value": version == "v1beta1"}
            for at, version in enumerate(versions)
        ]
        change.append({"op": "replace", "path": "/spec/conversion", "value": {"strategy": "None"}})
        await kube.patch(CRDS, name, change, kind="json")


@asynccontextmanager
async def replaced(kube: Kube, sandbox: Sandbox, worker: Worker) -> AsyncIterator[None]:
    """`tenon takeover` stops the Deployment of Karpenter, installs Tenon's CRDs and starts Tenon, in this order."""
    old = Deployed(kube, "karpenter", "karpenter", lambda: None, lambda: None)
    tenon = Deployed(kube, "tenon", "tenon", worker.start, worker.stop)
    settings = environment(sandbox, KUBECONFIG=str(sandbox.kubeconfig), TENON_SANDBOX_DIR=str(sandbox.logs / "none"))
    async with old.running(), tenon.running():
        await old.create(1)
        await tenon.create(0)
        command = [sys.executable, "-m", "cli", "takeover", "--yes", "--settle", "1s"]
        run = partial(subprocess.run, command, env=settings, capture_output=True, text=True, check=False, timeout=280)
        done = await asyncio.to_thread(run)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "From here there is no way back" in done.stdout
        assert "Nothing was bought or ended" in done.stdout
        yield
        await kube.delete(CONFIGMAPS, MEMORY, namespace="tenon")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def story(sandbox: Sandbox, kube: Kube, client: Client, worker: Worker) -> AsyncIterator[Story]:
    """Two nodes of that age under Tenon, of which Karpenter was about to disrupt one as it was stopped."""
    assert await asyncio.to_thread(worker.stop) == 0
    pool = Pool(kube, sandbox, f"beta-{datetime.now(UTC):%H%M%S}")
    karpenter = OldKarpenter(kube, sandbox, pool)
    crds = ("apply", "--server-side", "--force-conflicts", "-f", str(DEPLOY / "crds"))
    await store_v1beta1(kube)
    try:
        await karpenter.set_up()
        settled, begun = await asyncio.gather(karpenter.node("settled"), karpenter.node("begun"))
        pods = {}
        for claim in (settled, begun):
            name = claim["metadata"]["name"].removeprefix(f"{pool.name}-")
            pod = await pool.pod(name, nodeSelector={"kubernetes.io/hostname": claim["status"]["nodeName"]})
            pods[pod["metadata"]["name"]] = pod["metadata"]["uid"]
        await pool.running(2)
        await karpenter.taint(begun)
        async with replaced(kube, sandbox, worker):
            yield Story(karpenter, worker, client, {"settled": settled, "begun": begun}, pods)
    finally:
        if await stored_as_v1beta1(kube):  # the takeover did not come so far
            await asyncio.to_thread(sandbox.kubectl, *crds)
        if not worker.running:
            await asyncio.to_thread(worker.start)
        await clear(pool)


async def test_v1b11_nodes_of_v1beta1s_age_are_taken_over_as_they_are(story: Story) -> None:
    """No instance is bought or ended and no pod moves; the taint of that age is taken back like that of today."""
    await story.live("settled", "begun")
    assert len(story.bought()) == len(story.living()) == 2
    assert await story.pods_now() == story.pods
    for name in ("settled", "begun"):
        claim = await story.read(name)
        assert claim is not None
        assert condition(claim, "Ready")["status"] == "True"
        assert condition(claim, "Drifted") == {}
        node = await story.kube.get(NODES, claim["status"]["nodeName"])
        assert node is not None
        assert DISRUPTING not in node["spec"]["taints"]


async def test_v1b09_v1b10_objects_stored_as_v1beta1_become_v1_and_are_hashed_again(story: Story) -> None:
    """V1B-02, V1B-04, V1B-05, V1B-07: with what v1beta1 said of it, kubelet settings and expiry too."""

    async def migrated() -> bool:
        crds = [await story.kube.get(CRDS, name) or {} for name in NAMES]
        return all(definition["status"]["storedVersions"] == ["v1"] for definition in crds)

    await until(migrated)

    async def rehashed() -> bool:
        result = [await story.pool.read(), *await story.pool.claims()]
        marks = [item["metadata"]["annotations"] for item in result]
        classes = {mark["karpenter.k8s.aws/ec2nodeclass-hash-version"] for mark in marks[1:]}
        return ({mark["karpenter.sh/nodepool-hash-version"] for mark in marks}, classes) == (
            {NODEPOOL_VERSION},
            {EC2NODECLASS_VERSION},
        )

    await until(rehashed)
    pool, claim = await story.pool.read(), await story.read("settled")
    assert claim is not None
    assert pool["spec"]["disruption"]["consolidationPolicy"] == "WhenEmptyOrUnderutilized"
    for obj in (pool, claim):
        assert json.loads(obj["metadata"]["annotations"][labels.V1BETA1_KUBELET]) == {"maxPods": MAX_PODS}
    assert claim["spec"]["expireAfter"] == "720h"
    assert claim["spec"]["nodeClassRef"]["group"] == "karpenter.k8s.aws"


async def test_v1b13_their_instances_get_the_tag_of_today(story: Story, sandbox: Sandbox) -> None:
    """AAN-02: and no sweep ends one."""
    await sweep(story.client, sandbox.cluster_name)
    assert len(story.living()) == 2
    for instance in story.pool.instances():
        assert instance["tags"]["eks:eks-cluster-name"] == sandbox.cluster_name


async def test_they_take_pods_and_drain_as_any_other(story: Story) -> None:
    """TRM-01: the one that was to be disrupted has room again for a pod, and no third node is bought."""
    begun = story.claims["begun"]["status"]["nodeName"]
    await story.pool.pod("late", cpu="100m", nodeSelector={"kubernetes.io/hostname": begun})
    await story.pool.running(3)
    assert len(story.bought()) == 2
    await story.pool.delete_pod("late")
    await story.pool.delete_pod("settled")
    await story.kube.delete(NODES, story.claims["settled"]["status"]["nodeName"])
    await story.pool.gone(story.name("settled"))
    assert [pod["metadata"]["name"] for pod in await story.pool.pods()] == [f"{story.pool.name}-begun"]
