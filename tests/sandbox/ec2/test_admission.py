"""What a kubelet accepts: the checks by which the end-to-end tests convict a wrong plan."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.ec2.admission import admit, misplaced, requests, selects


def pod(cpu: str = "1", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": "p", "namespace": "d", "uid": "1"}, "spec": {"containers": [container], **spec}}


def node(*taints: dict[str, str], cpu: str = "2", pods: str = "10", **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "n", "labels": labels},
        "spec": {"taints": list(taints)},
        "status": {"allocatable": {"cpu": cpu, "memory": "4Gi", "pods": pods}},
    }


def reason(refused: Any) -> str:
    return refused.reason if refused else ""


def test_a_pod_that_fits_exactly_is_admitted_and_the_next_is_not() -> None:
    assert admit(pod("1"), node(), [pod("1")]) is None
    refused = admit(pod("1"), node(), [pod("1"), pod("1m")])
    assert refused is not None
    assert refused.reason == "OutOfcpu"
    assert refused.message.endswith("cpu, requested: 1000, used: 1001, capacity: 2000")


def test_pods_themselves_are_counted() -> None:
    assert reason(admit(pod("0"), node(pods="1"), [pod("0")])) == "OutOfpods"


def test_a_resource_that_the_node_lacks_is_out() -> None:
    wish = pod()
    wish["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "1"
    assert reason(admit(wish, node(), [])) == "OutOfnvidia.com/gpu"


def test_start_up_peaks_and_sidecars_count() -> None:
    def container(cpu: str, **more: str) -> dict[str, Any]:
        return {"name": "i", "resources": {"requests": {"cpu": cpu}}, **more}

    pair = pod("1", initContainers=[container("500m", restartPolicy="Always"), container("3")])
    assert requests(pair) == {"cpu": 3500, "pods": 1}
    assert requests(pod("1", initContainers=[container("500m", restartPolicy="Always")]))["cpu"] == 1500
    assert requests(pod("1", overhead={"cpu": "250m"}))["cpu"] == 1250
    assert requests(pod("1", resources={"requests": {"cpu": "4"}}))["cpu"] == 4000


@pytest.mark.parametrize(
    ("toleration", "admitted"),
    [
        (None, False),
        ({"operator": "Exists"}, True),
        ({"key": "k", "operator": "Exists"}, True),
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "value": "other"}, False),
        ({"key": "k", "value": "v", "effect": "NoSchedule"}, False),
    ],
)
def test_untolerated_no_execute_taints_reject(toleration: Any, admitted: bool) -> None:
    tainted = node({"key": "k", "value": "v", "effect": "NoExecute"})
    refused = admit(pod(tolerations=[toleration] if toleration else []), tainted, [])
    assert reason(refused) == ("" if admitted else "TaintToleration")


def test_no_schedule_taints_admit_and_are_noted() -> None:
    tainted = node({"key": "k", "effect": "NoSchedule"}, {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"})
    assert admit(pod(), tainted, []) is None
    assert misplaced(pod(), tainted) == ["k:NoSchedule"]
    assert misplaced(pod(tolerations=[{"key": "k", "operator": "Exists"}]), tainted) == []


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}}


@pytest.mark.parametrize(
    ("spec", "accepted"),
    [
        ({"nodeSelector": {"zone": "a"}}, True),
        ({"nodeSelector": {"zone": "b"}}, False),
        (affinity({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}), True),
        (affinity({"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}), False),
        (affinity({"matchExpressions": [{"key": "other", "operator": "NotIn", "values": ["a"]}]}), True),
        (affinity({"matchExpressions": [{"key": "other", "operator": "Exists"}]}), False),
        (affinity({"matchExpressions": [{"key": "other", "operator": "DoesNotExist"}]}), True),
        (affinity({"matchExpressions": [{"key": "cpu", "operator": "Gt", "values": ["3"]}]}), True),
        (affinity({"matchExpressions": [{"key": "cpu", "operator": "Lt", "values": ["4"]}]}), False),
        (affinity({"matchExpressions": [{"key": "zone", "operator": "Gt", "values": ["1"]}]}), False),
        (affinity({}), False),
        (affinity({}, {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}), True),
        (affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["m"]}]}), False),
    ],
)
def test_selectors(spec: dict[str, Any], accepted: bool) -> None:
    labelled = node(zone="a", cpu="4")
    labelled["metadata"]["labels"] = {"zone": "a", "cpu": "4"}
    assert selects(pod(**spec), labelled) is accepted
    assert reason(admit(pod(**spec), labelled, [])) == ("" if accepted else "NodeAffinity")


def test_host_ports_are_taken_once() -> None:
    def on(port: int, protocol: str = "TCP") -> dict[str, Any]:
        item = pod("0")
        item["spec"]["containers"][0]["ports"] = [{"hostPort": port, "protocol": protocol}]
        return item

    assert reason(admit(on(80), node(), [on(80)])) == "NodePorts"
    assert admit(on(80), node(), [on(80, "UDP"), on(81)]) is None


@pytest.mark.parametrize(
    ("expectation", "occupancy", "refused"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("10.0.0.1", "", True),
        ("", "10.0.0.1", True),
        ("0.0.0.0", "10.0.0.1", True),
    ],
)
def test_sch075_host_ports_are_taken_by_address(expectation: str, occupancy: str, refused: bool) -> None:
    """As the scheduler's HostPortInfo does: a port without an address occupies all of the node's."""

    def on(address: str) -> dict[str, Any]:
        item = pod("0")
        item["spec"]["containers"][0]["ports"] = [{"hostPort": 80, **({"hostIP": address} if address else {})}]
        return item

    assert reason(admit(on(expectation), node(), [on(occupancy)])) == ("NodePorts" if refused else "")


@pytest.mark.parametrize(("policy", "refused"), [("Always", True), (None, False)])
def test_sch075_sidecars_take_host_ports_and_other_init_containers_do_not(policy: str | None, refused: bool) -> None:
    init: dict[str, Any] = {"name": "i", "ports": [{"hostPort": 80}], **({"restartPolicy": policy} if policy else {})}
    plain = pod("0")
    plain["spec"]["containers"][0]["ports"] = [{"hostPort": 80}]
    with_init = pod("0", initContainers=[init])
    assert reason(admit(with_init, node(), [plain])) == ("NodePorts" if refused else "")
    assert reason(admit(plain, node(), [with_init])) == ("NodePorts" if refused else "")
