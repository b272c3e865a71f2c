"""The sandbox's cluster as its users find it: real processes, one cluster for the session."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.client import Client

from sandbox import kubectl, metrics
from sandbox.cluster import Sandbox
from sandbox.errors import SandboxError
from sandbox.kwok import (
    ADMITTED_ANNOTATION,
    COMPLETE_ANNOTATION,
    KUBELET_ANNOTATION,
    NODE_ANNOTATION,
    STOP_ANNOTATION,
    SYSTEM_NODE,
)
from workflows.names import SEARCH_ATTRIBUTES

KUBELET = "kubelet-up"
SILENT = "kubelet-down"


def node(name: str, **annotations: str) -> dict[str, Any]:
    """A node of this test's own, with 2 cores, that nothing is scheduled to."""
    room = {"cpu": "2", "memory": "4Gi", "pods": "10"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"taints": [{"key": "test", "effect": "NoSchedule"}]},
        "status": {"capacity": room, "allocatable": room},
    }


def pod(
    name: str, on: str = "", cpu: str = "100m", grace: int = 30, annotations: dict[str, str] | None = None
) -> dict[str, Any]:
    """A pod bound to a node by its maker, or left to the scheduler."""
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
    spec: dict[str, Any] = {"containers": [container], "terminationGracePeriodSeconds": grace}
    if on:
        spec |= {"nodeName": on, "tolerations": [{"operator": "Exists"}]}
    metadata = {"name": name, "namespace": "default", "annotations": annotations or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def get(sandbox: Sandbox, *subject: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(sandbox.kubectl("get", *subject, "-o", "json"))
    return document


def condition(result: dict[str, Any], name: str) -> str | None:
    return next((c["status"] for c in result["status"].get("conditions", []) if c["type"] == name), None)


@pytest.fixture(scope="module")
def nodes(sandbox: Sandbox) -> Iterator[None]:
    """A node whose kubelet is up, made after one whose kubelet is not."""
    sandbox.apply(node(SILENT, **{NODE_ANNOTATION: "fake"}))
    sandbox.apply(node(KUBELET, **{NODE_ANNOTATION: "fake", KUBELET_ANNOTATION: "ready"}))
    sandbox.kubectl("wait", "--for=condition=Ready", f"node/{KUBELET}", "--timeout=60s")
    yield
    sandbox.kubectl("delete", "pod", "--all", "--namespace=default", "--force")
    sandbox.kubectl("delete", "node", SILENT, KUBELET)


def test_the_system_node_is_ready_and_takes_no_users_pods(sandbox: Sandbox) -> None:
    assert condition(get(sandbox, "node", SYSTEM_NODE), "Ready") == "True"
    sandbox.apply(pod("users"))
    sandbox.kubectl("wait", "--for=condition=PodScheduled=False", "pod/users", "--timeout=60s")
    assert "untolerated taint" in json.dumps(get(sandbox, "pod", "users")["status"]["conditions"])
    sandbox.kubectl("delete", "pod", "users")


def test_the_clusters_dns_has_its_address(sandbox: Sandbox) -> None:
    assert get(sandbox, "service", "kube-dns", "--namespace=kube-system")["spec"]["clusterIP"] == "10.96.0.10"


@pytest.mark.usefixtures("nodes")
def test_a_node_turns_ready_only_by_its_kubelet(sandbox: Sandbox) -> None:
    """The earlier of the two is still as its maker left it when the later is Ready."""
    assert condition(get(sandbox, "node", KUBELET), "Ready") == "True"
    assert condition(get(sandbox, "node", SILENT), "Ready") != "True"


@pytest.mark.usefixtures("nodes")
def test_a_pod_runs_only_once_the_kubelet_admitted_it(sandbox: Sandbox) -> None:
    sandbox.apply(pod("fits", on=KUBELET), pod("does-not-fit", on=KUBELET, cpu="3"))
    sandbox.kubectl("wait", "--for=jsonpath={.status.phase}=Failed", "pod/does-not-fit", "--timeout=60s")
    sandbox.kubectl("wait", "--for=condition=Ready", "pod/fits", "--timeout=60s")
    refused, running = get(sandbox, "pod", "does-not-fit"), get(sandbox, "pod", "fits")
    assert refused["status"]["reason"] == "OutOfcpu"
    assert "startTime" not in refused["status"]
    assert running["metadata"]["annotations"][ADMITTED_ANNOTATION] == "true"
    assert running["status"]["podIP"]
    assert running["status"]["containerStatuses"][0]["ready"]
    sandbox.ec2().clear_rejections()


@pytest.mark.usefixtures("nodes")
def test_a_pod_stops_at_once_unless_it_is_slow(sandbox: Sandbox) -> None:
    sandbox.apply(pod("quick", on=KUBELET, grace=600))
    sandbox.apply(pod("slow", on=KUBELET, grace=600, annotations={STOP_ANNOTATION: "slow"}))
    sandbox.kubectl("wait", "--for=condition=Ready", "pod/quick", "pod/slow", "--timeout=60s")
    sandbox.kubectl("delete", "pod", "slow", "--wait=false")
    sandbox.kubectl("delete", "pod", "quick", "--timeout=60s")
    assert get(sandbox, "pod", "slow")["metadata"]["deletionTimestamp"]


@pytest.mark.usefixtures("nodes")
def test_a_pod_completes_when_its_annotation_says_so(sandbox: Sandbox) -> None:
    sandbox.apply(pod("job", on=KUBELET, annotations={COMPLETE_ANNOTATION: "1ms"}))
    sandbox.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/job", "--timeout=60s")
    assert get(sandbox, "pod", "job")["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0


def test_the_worker_is_its_service_account_and_no_more(sandbox: Sandbox) -> None:
    def can(*subject: str) -> str:
        try:
            return kubectl.kubectl(sandbox.worker_kubeconfig, "auth", "can-i", *subject).strip()
        except kubectl.KubectlError:
            return "no"

    whoami = kubectl.kubectl(sandbox.worker_kubeconfig, "auth", "whoami", "-o", "json")
    assert json.loads(whoami)["status"]["userInfo"]["username"] == "system:serviceaccount:tenon:tenon"
    assert can("list", "nodes") == "yes"
    assert can("list", "secrets", "--all-namespaces") == "no"
    assert can("create", "clusterrolebindings.rbac.authorization.k8s.io") == "no"
    assert can("create", "pods", "--namespace=default") == "no"


def test_the_products_resources_are_served(sandbox: Sandbox) -> None:
    for plural in ("nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws"):
        assert "items" in get(sandbox, plural), "whatever other tests have left there"


async def test_temporal_has_the_search_attributes(sandbox: Sandbox) -> None:
    client = await Client.connect(sandbox.temporal_address)
    answer = await client.operator_service.list_search_attributes(ListSearchAttributesRequest(namespace="default"))
    for key in SEARCH_ATTRIBUTES:
        assert IndexedValueType.Name(answer.custom_attributes[key.name]).endswith(key.indexed_value_type.name)


def test_the_ui_answers(sandbox: Sandbox) -> None:
    with urllib.request.urlopen(sandbox.temporal_ui, timeout=30) as answer:
        assert answer.status == 200


def test_everything_listens_on_loopback_only(sandbox: Sandbox) -> None:
    listeners = {
        (name, connection.laddr.ip)
        for name, part in sandbox.status().components.items()
        if part.process
        for connection in psutil.Process(part.process.pid).net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert {name for name, _ in listeners} >= {"etcd", "kube-apiserver", "kwok", "temporal", "ec2"}
    assert {address for _, address in listeners} <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}, listeners


def test_a_second_sandbox_does_not_share_the_folder(sandbox: Sandbox) -> None:
    with pytest.raises(SandboxError, match="already"):
        Sandbox.start(sandbox.layout.root)
    assert Sandbox.attach(sandbox.layout.root).kubernetes_endpoint == sandbox.kubernetes_endpoint


def test_the_supervisor_killed_outright_leaves_nothing_running(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("killed")
    own = Sandbox.start(folder)
    status = own.status()
    assert status.supervisor is not None
    processes = [psutil.Process(part.process.pid) for part in status.components.values() if part.process]
    assert len(processes) == 7
    psutil.Process(status.supervisor.pid).kill()
    _, alive = psutil.wait_procs(processes, timeout=30)
    own.stop()
    assert not alive
    assert Sandbox.find(folder) is None


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_metrics_that_end_leave_nothing_that_breaks_discovery(sandbox: Sandbox, kill: bool) -> None:
    """An APIService without a server fails every client that asks what there is, and deletions of namespaces."""
    sandbox.start_metrics()
    sandbox.stop_component(metrics.COMPONENT, kill=kill)
    assert metrics.API_SERVICE not in sandbox.kubectl("get", "apiservices", "-o", "name")
