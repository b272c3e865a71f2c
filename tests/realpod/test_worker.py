"""Tenon's image in real pods, installed by the chart's files alone."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import DEPLOYMENTS, NODECLAIMS, NODEPOOLS, PODS
from sandbox.cluster import Sandbox
from sandbox.kubelet import NODE
from tenon.apis.conditions import READY
from tenon.kube.conditions import is_true
from tests.workflows.waiting import until

EXAMPLES = Path(__file__).parents[2] / "examples"
REPLICAS = 2
POD_SECONDS = 180.0
"""A new worker needs most of a minute of processor time on two busy cores."""


def workers(sandbox: Sandbox) -> list[dict[str, Any]]:
    """The worker's pods."""
    listed = json.loads(sandbox.kubectl("get", "pods", "--namespace=tenon", "--output=json"))
    items: list[dict[str, Any]] = listed["items"]
    return items


@pytest_asyncio.fixture(loop_scope="session")
async def pool(sandbox: Sandbox, kube: Kube) -> AsyncIterator[None]:
    """The NodePool of the examples and a Deployment of no pods. After the test, every instance must go."""
    sandbox.apply([EXAMPLES / name for name in ("ec2nodeclass.yaml", "nodepool.yaml", "inflate.yaml")])
    await kube.patch(
        NODEPOOLS, "default", {"spec": {"disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "1s"}}}
    )

    async def ready() -> bool:
        return is_true(await kube.get(NODEPOOLS, "default") or {}, READY)

    await until(ready, within=POD_SECONDS)
    yield
    await scale(kube, 0)

    async def gone() -> bool:
        return not alive(sandbox) and not await kube.list(NODECLAIMS)

    await until(gone, within=POD_SECONDS)


async def scale(kube: Kube, replicas: int) -> None:
    """Scale the Deployment of the examples."""
    await kube.patch(DEPLOYMENTS, "inflate", {"spec": {"replicas": replicas}}, namespace="default")


async def all_run(kube: Kube, count: int) -> bool:
    """Whether ``count`` pods of the examples run, and no others exist."""
    pods = await kube.list(PODS, namespace="default", label_selector="app=inflate")
    return [pod["status"]["phase"] for pod in pods] == ["Running"] * count


def alive(sandbox: Sandbox) -> list[dict[str, Any]]:
    """The instances that are not terminated."""
    return [
        instance for instance in sandbox.ec2().instances() if instance["state"] not in ("terminated", "shutting-down")
    ]


def test_both_replicas_are_ready_on_the_real_node_as_the_chart_says(sandbox: Sandbox) -> None:
    pods = workers(sandbox)
    assert [pod["spec"]["nodeName"] for pod in pods] == [NODE] * REPLICAS
    for pod in pods:
        (status,) = pod["status"]["containerStatuses"]
        assert (status["ready"], status["restartCount"]) == (True, 0)
        (container,) = pod["spec"]["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
        assert [variable for variable in container["env"] if variable["name"] == "KUBECONFIG"] == []
    budget = json.loads(sandbox.kubectl("get", "poddisruptionbudget", "--namespace=tenon", "--output=json"))
    assert [item["status"]["currentHealthy"] for item in budget["items"]] == [REPLICAS]


async def test_it_buys_a_node_for_three_pods(sandbox: Sandbox, kube: Kube, pool: None) -> None:
    await scale(kube, 3)
    await until(lambda: all_run(kube, 3), within=POD_SECONDS)
    assert len(alive(sandbox)) == len(await kube.list(NODECLAIMS)) == 1


@pytest.mark.parametrize("after_effect", [False, True], ids=["before", "after"])
async def test_deleted_pods_of_the_worker_lose_no_launch(
    sandbox: Sandbox, kube: Kube, pool: None, after_effect: bool
) -> None:
    """Both pods are killed while EC2 holds the launch, before or after it made the instance."""
    ec2 = sandbox.ec2()
    ec2.hold("CreateFleet", after_effect=after_effect)
    before = {pod["metadata"]["name"] for pod in workers(sandbox)}
    await scale(kube, 3)

    async def held() -> bool:
        return bool(ec2.held())

    await until(held, within=POD_SECONDS)
    sandbox.kubectl("delete", "pods", "--all", "--namespace=tenon", "--grace-period=0", "--force")
    ec2.release()
    await until(lambda: all_run(kube, 3), within=POD_SECONDS)
    assert len(alive(sandbox)) == len(await kube.list(NODECLAIMS)) == 1
    assert before.isdisjoint(pod["metadata"]["name"] for pod in workers(sandbox))


async def test_objects_of_v1beta1_are_converted_through_the_webhooks_service(sandbox: Sandbox, pool: None) -> None:
    beta = json.loads(sandbox.kubectl("get", "nodepools.v1beta1.karpenter.sh", "default", "--output=json"))
    assert beta["apiVersion"] == "karpenter.sh/v1beta1"
    assert beta["spec"]["disruption"]["consolidationPolicy"] == "WhenEmpty"
    crd = json.loads(sandbox.kubectl("get", "crd", "nodepools.karpenter.sh", "--output=json"))
    client = crd["spec"]["conversion"]["webhook"]["clientConfig"]
    assert (client["service"]["name"], client.get("url")) == ("tenon", None)


def test_metrics_are_served_by_the_service(sandbox: Sandbox) -> None:
    path = "/api/v1/namespaces/tenon/services/tenon:http-metrics/proxy/metrics"
    assert "controller_runtime_active_workers" in sandbox.kubectl("get", "--raw", path)


def test_logs_and_commands_reach_the_pods(sandbox: Sandbox) -> None:
    pod = workers(sandbox)[0]["metadata"]["name"]
    assert "The worker serves workflows and activities" in sandbox.kubectl("logs", pod, "--namespace=tenon")
    settings = sandbox.kubectl("exec", pod, "--namespace=tenon", "--", "tenon", "settings")
    assert "CLUSTER_NAME" in settings
