"""From bytes to what scheduling sees."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tenon.kube.decode import decode_object
from tenon.kube.pod_decode import decode_pod
from tenon.kube.pod_rules import NO_RULES, PodRules, PodTerm, SpreadRule
from tenon.kube.requirements import Requirement, Requirements
from tenon.kube.selectors import LabelSelector
from tenon.kube.taints import Taint, Toleration
from tests.worker.cache.objects import UNSCHEDULABLE, container, daemonset, node, owned_by, pod, running, waiting


def needs(requests: Any = None, limits: Any = None, name: str = "c", **extra: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": requests or {}, "limits": limits or {}}, **extra}


SIDECAR = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"containers": [container("100m"), container("1")]}, {"cpu": 1100}, id="containers are summed"),
        pytest.param(
            {"containers": [container("1")], "initContainers": [container("3"), container("2")]},
            {"cpu": 3000},
            id="the largest init container counts when it is larger",
        ),
        pytest.param(
            {"containers": [container("1")], "initContainers": [container("1", **SIDECAR), container("3")]},
            {"cpu": 4000},
            id="an init container runs next to the sidecars before it",
        ),
        pytest.param(
            {"containers": [container("1")], "initContainers": [container("3"), container("1", **SIDECAR)]},
            {"cpu": 3000},
            id="but not next to those after it",
        ),
        pytest.param(
            {"containers": [container("2")], "initContainers": [container("1", **SIDECAR)]},
            {"cpu": 3000},
            id="sidecars run on next to the containers",
        ),
        pytest.param({"containers": [container("1")], "overhead": {"cpu": "250m"}}, {"cpu": 1250}, id="overhead"),
        pytest.param(
            {"containers": [container("1")], "resources": {"requests": {"cpu": "5"}}, "overhead": {"cpu": "1"}},
            {"cpu": 6000},
            id="a request of the whole pod replaces the sum",
        ),
        pytest.param(
            {"containers": [container("1")], "resources": {"limits": {"cpu": "5", "memory": "1Gi"}}},
            {"cpu": 1000, "memory": 2**30},
            id="a limit of the whole pod stands in where no container asks",
        ),
        pytest.param(
            {"containers": [needs({"cpu": "1"}, {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": 1})]},
            {"cpu": 1000, "memory": 2**30, "nvidia.com/gpu": 1},
            id="SCH-077 a limit is a request where there is none",
        ),
        pytest.param({"containers": []}, {}, id="nothing"),
    ],
)
def test_effective_requests_sch_076(spec: dict[str, Any], expected: dict[str, int]) -> None:
    body = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": spec}
    assert decode_pod(json.dumps(body).encode()).pod.requests == {**expected, "pods": 1}


def test_a_pod_resized_in_place_counts_the_larger_of_both_sch_076() -> None:
    allocated = {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "3"}}]}
    assert pod(cpu="1", status=allocated).pod.requests["cpu"] == 3000
    assert pod(cpu="4", status=allocated).pod.requests["cpu"] == 4000


def test_a_node_selector_holds_within_every_alternative() -> None:
    terms = [
        {"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]},
        {"matchExpressions": [{"key": "topology.ebs.csi.aws.com/zone", "operator": "In", "values": ["z"]}]},
        {},
    ]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    result = pod(nodeSelector={"disk": "ssd"}, affinity=affinity).pod
    assert [str(term) for term in result.required_terms] == [
        "a In [1 2], disk In [ssd]",
        "disk In [ssd], topology.kubernetes.io/zone In [z]",
    ]
    assert pod(nodeSelector={"disk": "ssd"}).pod.required_terms[0]["disk"].has("ssd")
    assert pod().pod.required_terms == ()


def required(*terms: Any) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


ODD_PEER = {
    "requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "h", "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Near"}]}}
    ]
}
PEER = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "h", "labelSelector": {}}]}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule", "topologyKey": "zone"}]}, ""),
        ({"affinity": {"podAffinity": PEER}}, ""),
        ({"affinity": {"podAntiAffinity": PEER}}, ""),
        ({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}}}, ""),
        ({"affinity": {"podAffinity": ODD_PEER}}, "label selector on app: operator 'Near' is unknown"),
        ({"affinity": required({"matchFields": [{"key": "metadata.name", "operator": "In"}]})}, "matchFields"),
        ({"affinity": required({})}, "match no node"),
        ({"affinity": required({"matchExpressions": [{"key": "a", "operator": "Near"}]})}, "'Near' is unknown"),
        ({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "x"}}]}, ""),
        ({"resourceClaims": [{"name": "gpu"}]}, "dynamic resource claims"),
    ],
)
def test_what_the_engine_cannot_plan_for_is_said_sch_003_096(spec: dict[str, Any], words: str) -> None:
    result = pod(**spec).pod
    assert words in result.unsupported
    assert bool(result.unsupported) == bool(words)
    assert result.requests["cpu"] == 1000, "it uses its node all the same"


def test_host_ports_of_lasting_containers_sch_075() -> None:
    ports = [{"containerPort": 1}, {"hostPort": 80}, {"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}]
    result = pod(
        containers=[container(ports=ports)],
        initContainers=[container(ports=[{"hostPort": 7}]), container(ports=[{"hostPort": 8}], **SIDECAR)],
    )
    assert set(result.pod.host_ports) == {("0.0.0.0", 80, "TCP"), ("10.0.0.1", 53, "UDP"), ("0.0.0.0", 8, "TCP")}


def test_every_port_in_the_nodes_own_network_is_one_of_the_nodes_sch_075() -> None:
    ports = [{"containerPort": 8080}, {"containerPort": 9000, "hostPort": 9000, "protocol": "UDP"}, {}]
    result = pod(containers=[container(ports=ports)], hostNetwork=True).pod
    assert set(result.host_ports) == {("0.0.0.0", 8080, "TCP"), ("0.0.0.0", 9000, "UDP")}


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (waiting(), True),
        (pod(), False),
        (pod(status={"conditions": [{**UNSCHEDULABLE, "reason": "SchedulerError"}]}), False),
        (running("p", "n"), False),
        (waiting(status={"nominatedNodeName": "n"}), False),
        (waiting(meta=owned_by("DaemonSet")), False),
        (waiting(meta=owned_by("ReplicaSet")), True),
        (waiting(meta=owned_by("Node")), False),
        (waiting(meta={"annotations": {"kubernetes.io/config.mirror": "x"}}), False),
        (waiting(schedulingGates=[{"name": "g"}]), False),
        (waiting(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}), False),
    ],
)
def test_which_pods_wait_for_capacity_sch_001(record: Any, expected: bool) -> None:
    assert record.provisionable is expected


@pytest.mark.parametrize(("policy", "buys"), [("Buy", True), ("Wait", False), ("buy", False)])
def test_a_pod_may_say_that_it_does_not_wait_in_a_shortage(policy: str, buys: bool) -> None:
    assert waiting(meta={"annotations": {"tenon.sh/shortage-policy": policy}}).pod.buys_in_shortage is buys


@pytest.mark.parametrize("key", ["karpenter.sh/nodepool", "karpenter.sh/provisioner-name"])
def test_a_pod_that_wants_no_pool_opts_out_sch_002(key: str) -> None:
    """LEG-14: by the name of any age."""

    def term(operator: str) -> dict[str, Any]:
        return {"matchExpressions": [{"key": key, "operator": operator}]}

    assert not waiting(affinity=required(term("DoesNotExist"))).provisionable
    assert waiting(affinity=required(term("Exists"))).provisionable
    assert waiting(affinity=required(term("DoesNotExist"), term("Exists"))).provisionable


@pytest.mark.parametrize(
    ("annotations", "cost"),
    [
        ({}, 0),
        ({"controller.kubernetes.io/pod-deletion-cost": "-5"}, -5),
        ({"karpenter.sh/disruption-cost": "100", "controller.kubernetes.io/pod-deletion-cost": "-5"}, 100),
        ({"karpenter.sh/disruption-cost": "dear", "controller.kubernetes.io/pod-deletion-cost": "-5"}, 0),
        ({"controller.kubernetes.io/pod-deletion-cost": "1.5"}, 0),
        ({"controller.kubernetes.io/pod-deletion-cost": "-2147483648"}, -(2**31)),
        ({"controller.kubernetes.io/pod-deletion-cost": "2147483648"}, 0),
    ],
)
def test_n15_211_a_pod_states_its_cost(annotations: dict[str, str], cost: int) -> None:
    """ANN-10, N15-023, N15-211, N15-212, N15-645: a cost for disruption alone goes before that for ReplicaSets."""
    record = pod("a", meta={"annotations": annotations})
    assert record.stated_cost(deletion_costs_managed=False) == cost


def test_n15_024_a_deletion_cost_is_no_cost_while_tenon_writes_it() -> None:
    rank = {"controller.kubernetes.io/pod-deletion-cost": "-5"}
    ranked = pod("a", meta={"annotations": rank})
    with_cost = pod("a", meta={"annotations": {**rank, "karpenter.sh/disruption-cost": "100"}})
    assert ranked.stated_cost(deletion_costs_managed=True) == 0
    assert with_cost.stated_cost(deletion_costs_managed=True) == 100


def test_tolerations_and_taints_keep_kubernetes_defaults() -> None:
    assert pod(tolerations=[{"key": "a", "value": "b"}, {"operator": "Exists"}]).pod.tolerations == (
        Toleration(key="a", value="b"),
        Toleration(operator="Exists"),
    )
    cordoned = node(taints=[{"key": "k", "effect": "NoSchedule"}], unschedulable=True)
    assert cordoned.taints == (
        Taint(key="k", effect="NoSchedule"),
        Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule"),
    )
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    closed = node(taints=[cordon], unschedulable=True, meta={"annotations": {"tenon.sh/closed": "true"}})
    assert closed.taints == (), "closed by Tenon until its pods are bound: a plan may count on it"


@pytest.mark.parametrize(
    ("kind", "name", "workload"),
    [
        ("StatefulSet", "db", "StatefulSet/db"),
        ("ReplicaSet", "web-5d4f8c", "Deployment/web"),
        ("ReplicaSet", "alone", "ReplicaSet/alone"),
    ],
)
def test_the_workload_of_a_pod_is_what_controls_it(kind: str, name: str, workload: str) -> None:
    other = {"apiVersion": "v1", "kind": "Other", "name": "x", "uid": "x"}
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "u", "controller": True}
    metadata = {"name": "p", "labels": {"pod-template-hash": "5d4f8c"}, "ownerReferences": [other, owner]}
    assert decode_pod(json.dumps({"metadata": metadata, "spec": {}}).encode()).pod.workload == workload


def test_equal_pods_share_their_parts() -> None:
    meta = {"labels": {"app": "x"}}
    first, second = (pod(name, meta=meta, nodeSelector={"a": "b"}).pod for name in ("a", "b"))
    assert first.requests is second.requests
    assert first.labels is second.labels
    assert first.required_terms is second.required_terms


@pytest.mark.parametrize("raw", [b"{", b"{}", b'{"metadata": {}}', b'{"metadata": {"name": 3}}'])
def test_bytes_that_are_no_object_are_refused(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decode_object(raw)


def test_a_malformed_quantity_is_named() -> None:
    with pytest.raises(ValueError, match="'lots' is not a quantity"):
        pod(cpu="lots")


def test_managed_fields_are_dropped() -> None:
    record = decode_object(b'{"metadata": {"name": "c", "managedFields": [{}]}}')
    assert record.body == {"metadata": {"name": "c"}}


def test_rules_between_pods_and_preferences_are_read_sch_040_050_063() -> None:
    web = {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["b"]}]}
    term = {"topologyKey": "zone", "labelSelector": web, "namespaces": ["y", "x"], "namespaceSelector": {}}
    required, preferred = (f"{name}DuringSchedulingIgnoredDuringExecution" for name in ("required", "preferred"))
    in_a = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    affinity = {
        "nodeAffinity": {preferred: [{"weight": 7, "preference": in_a}]},
        "podAffinity": {required: [term], preferred: [{"weight": 3, "podAffinityTerm": term}]},
        "podAntiAffinity": {required: [{"topologyKey": "zone"}], preferred: [{"weight": 2, "podAffinityTerm": term}]},
    }
    spread = {
        "topologyKey": "zone",
        "maxSkew": 2,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": web,
        "minDomains": 3,
        "matchLabelKeys": ["rev"],
        "nodeAffinityPolicy": "Ignore",
        "nodeTaintsPolicy": "Honor",
    }
    rules = pod(affinity=affinity, topologySpreadConstraints=[spread, {"topologyKey": "h", "maxSkew": 1}]).pod.rules
    label_selector = LabelSelector((("app", "In", ("web",)), ("tier", "NotIn", ("b",))))
    read = PodTerm("zone", label_selector, ("x", "y"), LabelSelector())
    assert rules == PodRules(
        spreads=(SpreadRule("zone", 2, label_selector, False, 3, ("rev",), False, True), SpreadRule("h", 1, None)),
        affinity=(read,),
        anti_affinity=(PodTerm("zone", None),),
        preferred_nodes=((7, Requirements.of(Requirement.new("zone", "In", ["a"]))),),
        preferred_affinity=((3, read),),
        preferred_anti_affinity=((2, read),),
    )
    assert pod().pod.rules is NO_RULES


def test_pods_of_a_daemonset_come_to_cordoned_nodes_too_sch_081() -> None:
    """The DaemonSet controller adds what every one of its pods tolerates; a cordoned node needs room for it."""
    cordon = Taint("node.kubernetes.io/unschedulable", "NoSchedule")
    own = daemonset().pod.tolerations
    assert any(toleration.tolerates(cordon) for toleration in own)
    assert not any(toleration.tolerates(Taint("dedicated", "NoSchedule", "x")) for toleration in own)


def test_the_instance_types_of_claims_are_held_once() -> None:
    """Each of thousands of NodeClaims names hundreds of them."""
    spec = {"requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["a", "b"]}]}
    first, second = (
        decode_object(json.dumps({"metadata": {"name": name}, "spec": spec}).encode()) for name in ("x", "y")
    )
    assert first.spec["requirements"][0]["values"] == ["a", "b"]
    assert first.spec["requirements"][0]["values"] is second.spec["requirements"][0]["values"]
    odd: Any
    for odd in ({"requirements": None}, {"requirements": [None, {"values": [1]}, {"values": "a"}]}, []):
        body = {"metadata": {"name": "x"}, "spec": odd}
        assert decode_object(json.dumps(body).encode()).body == body
