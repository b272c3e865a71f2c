"""Faults on the session's real cluster: what is stopped comes back with all it knew, what is lost looks lost."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest
import yaml
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError

from sandbox.cluster import Sandbox
from sandbox.errors import SandboxError
from sandbox.faults import catalogue
from sandbox.faults.apiproxy import ApiProxy
from sandbox.status import State
from tests.workflows.waiting import until
from workflows.names import SEARCH_ATTRIBUTES, nodeclaim_id

CLAIM = "kept"


@pytest.fixture(autouse=True)
def healed(sandbox: Sandbox) -> Iterator[None]:
    """What a test that failed left broken must not fail the next ones."""
    yield
    catalogue.clear(sandbox)


@pytest.fixture
async def temporal(sandbox: Sandbox) -> Client:
    return await Client.connect(sandbox.temporal_address)


def states(sandbox: Sandbox) -> dict[str, State]:
    return {name: part.state for name, part in sandbox.status().components.items()}


async def test_temporal_comes_back_with_its_workflows_and_search_attributes(sandbox: Sandbox, temporal: Client) -> None:
    handle = await temporal.start_workflow("NodeClaim", id=nodeclaim_id("sandbox", CLAIM), task_queue="nobody")
    await asyncio.to_thread(catalogue.apply, sandbox, "temporal-down", kill=True)
    assert states(sandbox)["temporal"] is State.STOPPED
    assert sandbox.status().state is State.READY
    with pytest.raises(SandboxError, match="temporal does not run"):
        sandbox.stop_component("temporal")
    await asyncio.to_thread(catalogue.clear, sandbox, "temporal-down")
    again = await Client.connect(sandbox.temporal_address)
    assert (await again.get_workflow_handle(handle.id).describe()).status is WorkflowExecutionStatus.RUNNING
    listed = await again.operator_service.list_search_attributes(ListSearchAttributesRequest(namespace="default"))
    assert {key.name for key in SEARCH_ATTRIBUTES} <= set(listed.custom_attributes)
    await again.get_workflow_handle(handle.id).terminate()


async def test_the_api_server_comes_back_with_its_objects_and_nothing_else_ends(sandbox: Sandbox) -> None:
    sandbox.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept", "namespace": "default"}})
    running = {name for name, state in states(sandbox).items() if state is State.READY}
    await asyncio.to_thread(catalogue.apply, sandbox, "api-down", kill=True)
    assert {name for name in running if states(sandbox)[name] is not State.READY} == {"kube-apiserver"}
    with pytest.raises(aiohttp.ClientConnectionError):
        async with aiohttp.ClientSession() as http:
            await http.get(f"{sandbox.kubernetes_endpoint}/readyz", ssl=False)
    await asyncio.to_thread(catalogue.clear, sandbox)
    assert {states(sandbox)[name] for name in running} == {State.READY}
    sandbox.kubectl("delete", "configmap", "kept", "--namespace=default")


async def test_a_frozen_temporal_answers_once_it_is_thawed(sandbox: Sandbox, temporal: Client) -> None:
    await asyncio.to_thread(catalogue.apply, sandbox, "component-frozen")
    assert states(sandbox)["temporal"] is State.FROZEN
    waiting = asyncio.create_task(temporal.service_client.check_health())
    await asyncio.to_thread(catalogue.clear, sandbox, "component-frozen")
    try:
        assert await waiting
    except RPCError:  # its client had given up by then
        assert await temporal.service_client.check_health()
    assert states(sandbox)["temporal"] is State.READY


@pytest.mark.parametrize("name", ["instance-killed", "instance-vanished", "instance-stopped"])
async def test_the_node_of_a_lost_instance_stays_behind_not_ready(sandbox: Sandbox, name: str) -> None:
    admin = sandbox.ec2()
    plant_instance = admin.plant_instance({"eks:eks-cluster-name": "sandbox"}, joins=True)
    node = next(instance["private_dns_name"] for instance in admin.instances() if instance["id"] == plant_instance)

    async def ready(expectation: str) -> bool:
        items = json.loads(sandbox.kubectl("get", "nodes", "-o", "json"))["items"]
        mine = [item for item in items if item["metadata"]["name"] == node]
        return bool(mine) and expectation == _ready(mine[0])

    await until(lambda: ready("True"))
    catalogue.apply(sandbox, name, instance=plant_instance)
    await until(lambda: ready("Unknown"))
    if name == "instance-killed":

        async def terminated() -> bool:
            return {str(instance["id"]): str(instance["state"]) for instance in admin.instances()}.get(
                plant_instance
            ) == "terminated"

        await until(terminated)
        assert await ready("Unknown")
    sandbox.kubectl("delete", "node", node)


async def test_an_instance_that_dies_while_booting_is_no_node_and_says_why(sandbox: Sandbox) -> None:
    admin = sandbox.ec2()
    catalogue.apply(sandbox, "instances-die-booting")
    plant_instance = admin.plant_instance({"eks:eks-cluster-name": "sandbox"}, joins=True)

    async def dead() -> bool:
        return {str(instance["id"]): str(instance["state_reason"]) for instance in admin.instances()}[
            plant_instance
        ] == "Client.InternalError"

    await until(dead)
    catalogue.clear(sandbox, "instances-die-booting")
    assert plant_instance not in sandbox.kubectl("get", "nodes", "-o", "jsonpath={.items[*].spec.providerID}")


async def test_the_proxy_serves_a_worker_as_the_api_server_does(sandbox: Sandbox) -> None:
    """Its identity, its rights, its watches: and these are silent while they are stalled."""
    with ApiProxy.start(sandbox) as proxy:
        document = yaml.safe_load(proxy.kubeconfig.read_text())
        headers = {"Authorization": f"Bearer {document['users'][0]['user']['token']}"}
        trust = ssl.create_default_context(cafile=str(sandbox.layout.pki / "ca.crt"))
        async with aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(ssl=trust)) as http:
            assert (await http.get(f"{proxy.endpoint}/api/v1/secrets")).status == 403
            listed = await (await http.get(f"{proxy.endpoint}/api/v1/pods")).json()
            query = {"watch": "1", "resourceVersion": listed["metadata"]["resourceVersion"]}
            async with http.get(f"{proxy.endpoint}/api/v1/pods", params=query) as watch:
                sandbox.apply(_pod("proxied"))
                first: dict[str, Any] = json.loads(await watch.content.readline())
                assert first["object"]["metadata"]["name"] == "proxied"
                proxy.stall_watches("pods")
                # What the scheduler had written on the pod may be on its way, and arrives before this answer.
                await (await http.get(f"{proxy.endpoint}/api/v1/pods")).read()
                total_bytes = watch.content.total_bytes
                sandbox.kubectl("delete", "pod", "proxied", "--namespace=default", "--force")
                listed = await (await http.get(f"{proxy.endpoint}/api/v1/pods")).json()
                assert "proxied" not in {pod["metadata"]["name"] for pod in listed["items"]}
                assert watch.content.total_bytes == total_bytes
                proxy.release()
                assert (await watch.content.readline()).startswith(b'{"type":')


def _ready(node: dict[str, Any]) -> str:
    return next(str(condition["status"]) for condition in node["status"]["conditions"] if condition["type"] == "Ready")


def _pod(name: str) -> dict[str, Any]:
    container = {"name": "main", "image": "pause"}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
