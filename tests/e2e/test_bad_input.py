"""What users get wrong: one clear sentence where they look, and the rest goes on."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import pytest_asyncio
import yaml
from temporalio.api.operatorservice.v1 import ListSearchAttributesResponse
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import EC2NODECLASSES, NODEPOOLS
from sandbox.cluster import Sandbox
from sandbox.ports import free_ports
from tenon.apis import labels
from tests.e2e.conftest import MakePool, NewPool
from tests.e2e.pools import SMALL, Pool, condition
from tests.e2e.worker_process import environment
from tests.workflows.waiting import until
from worker.runtime.temporal.search_attributes import ensure_search_attributes
from worker.runtime.temporal.temporal_client import TemporalError
from workflows.names import SEARCH_ATTRIBUTES


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def good(new_pool: NewPool) -> AsyncIterator[Pool]:
    """A pool in which nothing is wrong, next to those of the tests; each pod in it needs a node of its own."""
    async with new_pool(consolidate_after="Never", requirements=SMALL) as pool:
        yield pool


async def goes_on(good: Pool, name: str) -> None:
    """A pod of the good pool still gets its node."""
    await good.pod(name)
    await good.running(1, app=name)


async def test_a_nodepool_that_only_the_worker_can_refuse(make_pool: MakePool, good: Pool, kube: Kube) -> None:
    """NP, EVT: ValidationSucceeded is False and an event says which field; its pods hear why, other pools go on."""
    free = {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["free"]}
    pool = await make_pool(requirements=[free], ready=False)

    async def refused() -> bool:
        return condition(await pool.read(), "ValidationSucceeded").get("status") == "False"

    await until(refused)
    result = await pool.read()
    message = condition(result, "ValidationSucceeded")["message"]
    assert "spec.template.spec.requirements" in message
    assert "on-demand, reserved, spot" in message
    assert condition(result, "Ready")["status"] == "False"
    await pool.seen(pool.name, "NodePoolValidationFailed", "on-demand, reserved, spot")
    pod = await pool.pod("one")
    await pool.seen(pod["metadata"]["name"], "FailedScheduling")
    await goes_on(good, "beside-invalid")
    assert await pool.claims() == []


async def test_a_nodepool_that_the_api_server_refuses(make_pool: MakePool, kube: Kube) -> None:
    """NP: a reserved label never gets into the cluster; the API server's own message says so."""
    pool = await make_pool()
    reserved = {"key": "karpenter.sh/colour", "operator": "Exists"}
    body = pool.node_pool(consolidate_after="1s", requirements=[reserved], template={}, budgets=[])
    body["metadata"]["name"] += "-bad"
    with pytest.raises(ApiError, match="requirements must not use a reserved label") as refusal:
        await kube.create(NODEPOOLS, body)
    assert refusal.value.status == 422


async def test_an_instance_type_that_does_not_exist(make_pool: MakePool, good: Pool) -> None:
    """SCH, EVT-03: the pods and the pool hear that no type meets the pool's requirements; other pools go on."""
    unknown = {"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["m5.gigantic"]}
    pool = await make_pool(requirements=[unknown])
    pod = await pool.pod("one")
    name = pod["metadata"]["name"]
    await pool.seen(name, "FailedScheduling", f"NodePool {pool.name}: no available instance type")
    await pool.seen(pool.name, "NoCompatibleInstanceTypes", "No available instance type meets its requirement")
    await goes_on(good, "beside-unknown")
    assert await pool.claims() == []
    (still,) = await pool.pods()
    assert still["status"]["phase"] == "Pending"


async def test_a_node_class_whose_subnets_match_nothing(make_pool: MakePool, good: Pool, kube: Kube) -> None:
    """EC, EVT: class and pool say that they are not ready and why; once corrected, the waiting pod gets its node."""
    nowhere = [{"tags": {"karpenter.sh/discovery": "nowhere"}}]
    pool = await make_pool(ready=False, subnetSelectorTerms=nowhere)

    async def unready() -> bool:
        node_class = await kube.get(EC2NODECLASSES, pool.name)
        result = condition(await pool.read(), "NodeClassReady")
        subnets = condition(node_class, "SubnetsReady")
        return subnets.get("status") == "False" and "subnetSelectorTerms" in result.get("message", "")

    await until(unready)
    node_class = await kube.get(EC2NODECLASSES, pool.name)
    assert condition(node_class, "SubnetsReady")["reason"] == "SubnetsNotFound"
    assert condition(node_class, "SecurityGroupsReady")["status"] == "True"
    assert condition(node_class, "Ready")["status"] == "False"
    await pool.seen(pool.name, "SubnetsNotFound", "subnetSelectorTerms found no subnet")
    assert condition(await pool.read(), "NodeClassReady")["status"] == "False"
    pod = await pool.pod("one")
    await pool.seen(pod["metadata"]["name"], "FailedScheduling")
    await goes_on(good, "beside-lost")
    assert await pool.claims() == []

    somewhere = pool.node_class()["spec"]["subnetSelectorTerms"]
    await kube.patch(EC2NODECLASSES, pool.name, {"spec": {"subnetSelectorTerms": somewhere}})
    await pool.running(1)


def nobody() -> str:
    """An address where nothing listens."""
    (port,) = free_ports(1)
    return f"127.0.0.1:{port}"


async def start_worker(sandbox: Sandbox, **changes: str | None) -> tuple[int, list[str]]:
    """A worker's exit status and what it says on stderr, run next to the one of the tests."""
    names = ("METRICS_PORT", "HEALTH_PROBE_PORT", "WEBHOOK_PORT")
    ports = dict(zip(names, map(str, free_ports(len(names))), strict=True))

    def run() -> subprocess.CompletedProcess[str]:
        env = environment(sandbox, 0, **{**ports, "LEADER_ELECTION_NAME": "bad-input", **changes})
        command = [sys.executable, "-m", "cli", "worker"]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=280, check=False)

    done = await asyncio.to_thread(run)
    return done.returncode, done.stderr.splitlines()


def assert_one_sentence(outcome: tuple[int, list[str]], *words: str) -> None:
    """Exit status 2, and on stderr one line that holds all the words; both processes may have met the same fault."""
    status, text = outcome
    assert status == 2, text
    assert len(set(text)) == 1, text
    assert all(word in text[0] for word in words), text


async def test_a_worker_without_a_cluster_name_says_so(sandbox: Sandbox) -> None:
    """SET: exit status 2, and the name of the setting."""
    assert_one_sentence(await start_worker(sandbox, CLUSTER_NAME=None), "CLUSTER_NAME", "--cluster-name")


async def test_a_worker_that_cannot_reach_kubernetes_says_so(sandbox: Sandbox, tmp_path: Path) -> None:
    """Exit status 2, and the address."""
    address = nobody()
    config = yaml.safe_load(sandbox.worker_kubeconfig.read_text())
    for cluster in config["clusters"]:
        cluster["cluster"]["server"] = f"https://{address}"
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))
    assert_one_sentence(await start_worker(sandbox, KUBECONFIG=str(kubeconfig)), address)


async def test_a_worker_whose_port_is_taken_says_so(sandbox: Sandbox) -> None:
    """Exit status 2, and the setting to change."""
    with socket.create_server(("", 0)) as server:
        port = str(server.getsockname()[1])
        assert_one_sentence(await start_worker(sandbox, HEALTH_PROBE_PORT=port), port, "HEALTH_PROBE_PORT")


class OperatorService:
    """A Temporal namespace without search attributes that lets nobody add any."""

    async def list_search_attributes(self, _request: Any) -> ListSearchAttributesResponse:
        """None are there."""
        return ListSearchAttributesResponse()

    async def add_search_attributes(self, _request: Any) -> None:
        """Refused, as Temporal Cloud refuses it."""
        raise RPCError("Request unauthorized.", RPCStatusCode.PERMISSION_DENIED, b"")


async def test_missing_search_attributes_are_reported_with_the_command_to_add_them() -> None:
    """The dev server denies nothing, so this one is asked of a stub."""
    connected = SimpleNamespace(config=SimpleNamespace(target_host="temporal:7233", tls=None))
    client = SimpleNamespace(namespace="prod", operator_service=OperatorService(), service_client=connected)
    with pytest.raises(TemporalError) as refusal:
        await ensure_search_attributes(cast("Client", client))
    text = str(refusal.value)
    assert "prod" in text
    assert "temporal operator search-attribute create" in text
    assert all(f"--name {key.name}" in text for key in SEARCH_ATTRIBUTES)
    assert "\n" not in text
