"""A whole cluster is torn down, on a sandbox of its own: with its worker, and after its API server is gone."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import EC2NODECLASSES, NODECLAIMS, NODEPOOLS, NODES
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tests.e2e.conftest import Run
from tests.e2e.pools import SMALL, fresh_pool
from tests.e2e.worker_process import WorkerProcess, environment
from tests.sandbox_clients import administrator
from tests.sandbox_fixture import BOOT_SECONDS
from tests.workflows.waiting import until

OTHER = "another"
ENDED = ("shutting-down", "terminated")


def tags_of(cluster: str, claim: str) -> dict[str, str]:
    """The tags of an instance that Tenon launched for the cluster."""
    return {
        "Name": claim,
        f"kubernetes.io/cluster/{cluster}": "owned",
        labels.TAG_CLUSTER: cluster,
        labels.TAG_NODEPOOL: "default",
        labels.TAG_NODECLASS: "default",
        labels.TAG_NODECLAIM: claim,
    }


def alive(sandbox: Sandbox, cluster: str) -> set[str]:
    """The instances that launches of the cluster bought and that cost money."""
    return {
        instance["id"]
        for instance in sandbox.ec2().instances()
        if instance["tags"].get(labels.TAG_CLUSTER) == cluster and instance["state"] not in ENDED
    }


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with Sandbox.start(tmp_path_factory.mktemp("teardown"), boot_delay=BOOT_SECONDS) as running:
        running.ec2().lifecycle(pending=0.2, shutting_down=0.2)
        yield running


@pytest.fixture(scope="module")
def worker(sandbox: Sandbox) -> Iterator[WorkerProcess]:
    running = WorkerProcess(sandbox, "teardown")
    running.start()
    yield running
    if running.running:
        running.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def kube(sandbox: Sandbox) -> AsyncIterator[Kube]:
    async with administrator(sandbox) as client:
        yield client


@pytest.fixture(scope="module")
def others(sandbox: Sandbox) -> set[str]:
    """The instances of another cluster of the account."""
    return {sandbox.ec2().plant_instance(tags_of(OTHER, f"{OTHER}-{number}")) for number in range(3)}


@pytest.mark.timeout(2400)
async def test_a_cluster_is_drained_and_ended_although_worker_and_temporal_are_killed(
    sandbox: Sandbox, worker: WorkerProcess, kube: Kube, others: set[str], tenon: Run, tmp_path: Path
) -> None:
    """A PodDisruptionBudget holds for the time that was given. Nothing is bought again for the evicted pods."""
    cluster, file = sandbox.cluster_name, tmp_path / "report.md"
    async with fresh_pool(kube, sandbox, consolidate_after="Never", requirements=SMALL) as pool:
        await pool.deploy(3)
        await pool.deploy(1, app="held")
        await pool.protect("held")
        await pool.running(4)
        claims = {claim["metadata"]["name"] for claim in await pool.settled(4)}
        bought = {instance["id"] for instance in pool.instances()}
        (held_pod,) = await pool.pods("held")

        dry_run = await asyncio.to_thread(tenon, "teardown", cluster, "--dry-run", "-o", "json")
        assert dry_run.returncode == 0, dry_run.stderr
        assert {row["id"] for row in json.loads(dry_run.stdout)["survey"]["instances"]} == bought
        assert labels.TEARDOWN not in (await pool.read())["metadata"].get("annotations", {})

        started = await asyncio.to_thread(
            tenon, "teardown", cluster, "--yes", "--no-wait", "--reason", "moved", "--drain-timeout", "20s"
        )
        assert started.returncode == 0, started.stderr

        async def leaves() -> bool:
            return all("deletionTimestamp" in claim["metadata"] for claim in await pool.claims())

        await until(leaves)
        worker.crash()
        sandbox.stop_component("temporal", kill=True)
        sandbox.start_component("temporal")
        worker.start()
        ended = await asyncio.to_thread(tenon, "teardown", cluster, "--report", str(file), "-o", "json")
        assert ended.returncode == 0, ended.stdout + ended.stderr
        document = json.loads(ended.stdout)

        assert alive(sandbox, cluster) == set()
        assert alive(sandbox, OTHER) == others
        assert document["leftovers"] == []
        assert document["skipped"] == {}
        assert document["reason"] == "moved"
        lines = [line["text"] for line in document["timeline"]]
        assert "deletes the pods that are left, even protected ones" in lines
        assert "moved" in file.read_text()
        assert await kube.list(NODECLAIMS) == []
        for node in await kube.list(NODES):
            assert labels.TERMINATION_FINALIZER not in node["metadata"].get("finalizers", [])
        for node_class in await kube.list(EC2NODECLASSES):
            assert labels.NODECLASS_FINALIZER not in node_class["metadata"].get("finalizers", [])
        assert not sandbox.aws("ec2").describe_launch_templates()["LaunchTemplates"]

        # The evicted pods wait, and the worker says why it buys nothing.
        assert labels.TEARDOWN in (await pool.read())["metadata"]["annotations"]
        waiting = next(pod for pod in await pool.pods("held") if pod["metadata"]["uid"] != held_pod["metadata"]["uid"])
        await pool.seen(waiting["metadata"]["name"], "FailedScheduling", "the cluster is being torn down")
        assert {instance["tags"][labels.TAG_NODECLAIM] for instance in pool.instances()} == claims

        # Without the mark the cluster lives on.
        for resource in (EC2NODECLASSES, NODEPOOLS):
            await kube.patch(resource, pool.name, {"metadata": {"annotations": {labels.TEARDOWN: None}}})
        await pool.running(4)


async def test_fifty_nodes_end_after_the_api_server_is_gone_although_the_command_is_killed(
    sandbox: Sandbox, worker: WorkerProcess, others: set[str], tenon: Run, tmp_path: Path
) -> None:
    """The tags of EC2 are all that is left of the cluster. Another run of the command goes on."""
    cluster, ec2 = sandbox.cluster_name, sandbox.ec2()
    if worker.running:
        worker.crash()
    for number in range(50):
        ec2.plant_instance(tags_of(cluster, f"left-{number}"))
    lost = alive(sandbox, cluster)
    assert len(lost) >= 50
    sandbox.stop_component("kube-apiserver", kill=True)

    command = [sys.executable, "-m", "cli", "teardown", cluster, "--local-worker", "--ignore-worker", "--yes"]
    ec2.hold("TerminateInstances", after_effect=True)
    process = await asyncio.create_subprocess_exec(
        *command,
        env=environment(sandbox, TENON_SANDBOX_DIR=str(tmp_path)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    async def held() -> bool:
        return ec2.held() > 0

    try:
        await until(held)
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()
        ec2.release()
    ended = await asyncio.to_thread(tenon, *command[3:], "-o", "json")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    document = json.loads(ended.stdout)
    assert alive(sandbox, cluster) == set()
    assert alive(sandbox, OTHER) == others
    assert document["leftovers"] == []
    assert {item["name"] for item in document["ended"] if item["kind"] == "instance"} == lost
    assert set(document["skipped"]) == {"stop buying", "drain nodes of cluster", "remove finalizers of cluster"}
