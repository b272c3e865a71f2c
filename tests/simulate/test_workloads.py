"""Workloads become the pods that their controllers would create, as the API server would admit them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.simulate.running import POOL, Answer, deployment, node, simulate
from tests.simulate.test_volumes import claim, volume

ZONE = "topology.kubernetes.io/zone"


def container(**resources: Any) -> dict[str, Any]:
    return {"name": "main", "image": "app", "resources": resources or {"requests": {"cpu": "500m", "memory": "512Mi"}}}


def workload(kind: str, name: str = "work", *, status: dict[str, Any] | None = None, **spec: Any) -> str:
    """A workload as YAML. ``spec`` holds its fields besides the template; ``pod`` among them those of its pods."""
    pod = {"containers": [container()], **spec.pop("pod", {})}
    template = {"metadata": {"labels": {"app": name}}, "spec": pod}
    body = {
        "apiVersion": {"Job": "batch/v1", "ReplicationController": "v1"}.get(kind, "apps/v1"),
        "kind": kind,
        "metadata": {"name": name, **spec.pop("metadata", {})},
        "spec": {"template": template, **spec},
    }
    return "\n---\n" + json.dumps({**body, **({"status": status} if status else {})})


def pod(name: str = "p", **spec: Any) -> str:
    metadata = {"name": name, **spec.pop("metadata", {})}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container()], **spec}}
    return "\n---\n" + json.dumps(body)


def placed(answer: Answer) -> list[str]:
    """All pods of the plan's new nodes."""
    return sorted(name for claim in answer.plan["nodeClaims"] for name in claim["pods"])


def condition(kind: str, status: str = "True") -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": status}]}


def test_a_null_counts_as_absent(tmp_path: Path) -> None:
    """The API server reads it so, and leaves it out of its answers."""
    toleration = {"key": None, "operator": "Exists", "value": None, "effect": None}
    nulls = pod(metadata={"namespace": None}, nodeName=None, priorityClassName=None, tolerations=[toleration])
    assert placed(simulate(tmp_path, POOL + nulls)) == ["default/p"]


@pytest.mark.parametrize(
    ("spec", "status", "pods"),
    [
        ({}, None, 1),
        ({"parallelism": 4}, None, 4),
        ({"parallelism": 0}, None, 0),
        ({"parallelism": 10, "completions": 3}, None, 3),
        ({"completions": 5}, None, 1),
        ({"parallelism": 5, "completions": 5}, {"succeeded": 3, "active": 2}, 2),
        ({"parallelism": 5, "completions": 5}, {"succeeded": 5}, 0),
        ({"parallelism": 4}, {"succeeded": 1}, 0),
        ({"parallelism": 4, "suspend": True}, None, 0),
        ({"parallelism": 4, "suspend": False}, None, 4),
        ({"parallelism": 4}, condition("Complete"), 0),
        ({"parallelism": 4}, condition("Failed"), 0),
        ({"parallelism": 4}, condition("Failed", "False"), 4),
        ({"parallelism": 4}, condition("FailureTarget"), 0),
        ({"parallelism": 4}, condition("SuccessCriteriaMet"), 0),
        ({"parallelism": 4}, condition("Suspended"), 4),
        ({"parallelism": 4, "managedBy": "kubernetes.io/job-controller"}, None, 4),
        ({"parallelism": 4, "managedBy": "kueue.x-k8s.io/multikueue"}, None, 0),
        ({"parallelism": 4, "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, None, 0),
    ],
)
def test_a_job_has_the_pods_that_it_still_needs(
    tmp_path: Path, spec: dict[str, Any], status: dict[str, Any] | None, pods: int
) -> None:
    answer = simulate(tmp_path, POOL + workload("Job", status=status, **spec))
    assert placed(answer) == [f"default/work-{number}" for number in range(pods)]


@pytest.mark.parametrize(
    ("spec", "status", "indexes"),
    [
        ({"parallelism": 9}, {"succeeded": 2, "completedIndexes": "1-2"}, [0, 3]),
        ({"parallelism": 4, "backoffLimitPerIndex": 1}, {"completedIndexes": "1", "failedIndexes": "2"}, [0, 3]),
        ({"parallelism": 4, "suspend": True}, {"completedIndexes": "0"}, []),
        ({"parallelism": 1}, {"succeeded": 3, "completedIndexes": "0,1,3"}, [2]),
    ],
)
def test_an_indexed_job_has_only_the_pods_of_open_indexes(
    tmp_path: Path, spec: dict[str, Any], status: dict[str, Any], indexes: list[int]
) -> None:
    job = workload("Job", completions=4, completionMode="Indexed", status=status, **spec)
    assert placed(simulate(tmp_path, POOL + job)) == [f"default/work-{number}" for number in indexes]


@pytest.mark.parametrize("spec", [{"selector": {"app": "work"}}, {}], ids=["selector", "selector of the template"])
def test_a_replication_controller_has_its_pods(tmp_path: Path, spec: dict[str, Any]) -> None:
    answer = simulate(tmp_path, POOL + workload("ReplicationController", replicas=2, **spec))
    assert placed(answer) == ["default/work-0", "default/work-1"]


def test_a_replication_controller_selects_by_plain_labels(tmp_path: Path) -> None:
    controller = workload("ReplicationController", selector={"app": "other"})
    fault = "its selector asks for label app=other, which its template does not set"
    assert simulate(tmp_path, POOL + controller).faults == [
        f"document 2: ReplicationController default/work: spec: {fault}"
    ]


def test_a_job_of_another_controller_is_a_note(tmp_path: Path) -> None:
    answer = simulate(tmp_path, POOL + workload("Job", managedBy="kueue.x-k8s.io/multikueue"))
    assert "note: Job default/work is managed by kueue.x-k8s.io/multikueue, so Kubernetes creates no pods" in answer.err


def test_an_indexed_job_runs_the_indexes_that_have_not_completed(tmp_path: Path) -> None:
    status = {"succeeded": 3, "completedIndexes": "0,2-3"}
    spec: dict[str, Any] = {"parallelism": 3, "completions": 6, "completionMode": "Indexed"}
    answer = simulate(tmp_path, POOL + workload("Job", status=status, **spec))
    assert placed(answer) == [f"default/work-{number}" for number in (1, 4, 5)]
    endless = simulate(tmp_path, POOL + workload("Job", completionMode="Indexed"))
    assert endless.faults == ["document 2: Job default/work: an Indexed Job needs spec.completions"]


def test_the_pods_of_a_statefulset_are_numbered_from_its_first_ordinal(tmp_path: Path) -> None:
    claims = [{"metadata": {"name": "data"}, "spec": {"storageClassName": "fast"}}]
    stateful = workload("StatefulSet", "db", replicas=2, ordinals={"start": 5}, volumeClaimTemplates=claims)
    bound = volume("vol", "us-west-2b") + claim("data-db-5", volumeName="vol")
    plan = simulate(tmp_path, POOL + stateful + bound).plan
    zones = {
        name: requirement["values"]
        for claim in plan["nodeClaims"]
        for requirement in claim["requirements"]
        for name in claim["pods"]
        if requirement["key"] == ZONE
    }
    assert zones["default/db-5"] == ["us-west-2b"]
    assert sorted(name for claim in plan["nodeClaims"] for name in claim["pods"]) == ["default/db-5", "default/db-6"]


RUNTIME_CLASS = "\n---\n" + json.dumps(
    {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "vm"},
        "handler": "vm",
        "overhead": {"podFixed": {"cpu": "600m", "memory": "200Mi"}},
        "scheduling": {
            "nodeSelector": {"sandbox": "vm"},
            "tolerations": [{"key": "sandbox", "operator": "Equal", "value": "vm", "effect": "NoSchedule"}],
        },
    }
)
POOL_OF_VMS = POOL.replace("name: default}", "name: vms}", 1).replace(
    "    spec:\n",
    "    metadata: {labels: {sandbox: vm}}\n    spec:\n      taints: [{key: sandbox, value: vm, effect: NoSchedule}]\n",
)


@pytest.mark.parametrize("kind", ["Deployment", "Pod"])
def test_a_runtimeclass_adds_its_overhead_and_its_nodes(tmp_path: Path, kind: str) -> None:
    spec = {"runtimeClassName": "vm"}
    pods = workload("Deployment", replicas=1, pod=spec) if kind == "Deployment" else pod(**spec)
    (claim,) = simulate(tmp_path, POOL + "\n---\n" + POOL_OF_VMS + RUNTIME_CLASS + pods).plan["nodeClaims"]
    assert (claim["nodePool"], claim["requests"]["cpu"], claim["requests"]["memory"]) == ("vms", "1100m", "712Mi")


def runtime_class(**parts: Any) -> str:
    body = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "vm"}, "handler": "vm"}
    return "\n---\n" + json.dumps({**body, **parts})


OVERHEAD = {"podFixed": {"cpu": "300m"}}
VM = {"runtimeClassName": "vm"}


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        (runtime_class(overhead=OVERHEAD) + workload("StatefulSet", replicas=2, pod=VM), {"default": "1600m"}),
        (runtime_class() + workload("Job", parallelism=2, pod=VM), {"default": "1"}),
        (runtime_class(overhead=OVERHEAD) + workload("DaemonSet", "agent", pod=VM) + pod(), {"default": "1300m"}),
        (RUNTIME_CLASS + workload("DaemonSet", "agent", pod=VM) + pod() + pod("boxed", **VM),
         {"default": "500m", "vms": "1100m"}),
        (RUNTIME_CLASS + workload("DaemonSet", "agent", pod={**VM, "tolerations": [{"operator": "Exists"}]}) + pod()
         + pod("boxed", **VM), {"default": "500m", "vms": "2200m"}),
        (runtime_class(scheduling={"tolerations": [{"key": "sandbox", "operator": "Exists"}]})
         + pod(nodeSelector={"sandbox": "vm"}, **VM), {"vms": "500m"}),
    ],
    ids=[
        "overhead only", "nothing added", "a DaemonSet's overhead", "a DaemonSet whose template tolerates no taint",
        "a DaemonSet whose template tolerates all", "tolerations only",
    ],
)  # fmt: skip
def test_a_runtimeclass_adds_what_it_states(tmp_path: Path, text: str, nodes: dict[str, str]) -> None:
    """The DaemonSet controller decides by the template, which no RuntimeClass changes, on which nodes its pods run."""
    claims = simulate(tmp_path, POOL + "\n---\n" + POOL_OF_VMS + text).plan["nodeClaims"]
    assert {claim["nodePool"]: claim["requests"]["cpu"] for claim in claims} == nodes


def test_a_runtimeclass_that_is_missing_is_a_note(tmp_path: Path) -> None:
    answer = simulate(tmp_path, POOL + RUNTIME_CLASS + pod(runtimeClassName="vms"))
    assert len(answer.plan["nodeClaims"]) == 1
    assert "note: Pod default/p: RuntimeClass vms is not in the input" in answer.err


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"nodeSelector": {"sandbox": "gvisor"}}, "spec.nodeSelector[sandbox]: 'gvisor' contradicts RuntimeClass vm"),
        ({"overhead": {"cpu": "1"}}, "spec.overhead: is not that of RuntimeClass vm"),
    ],
)
def test_a_pod_that_contradicts_its_runtimeclass_is_refused(tmp_path: Path, spec: dict[str, Any], fault: str) -> None:
    (line,) = simulate(tmp_path, POOL + RUNTIME_CLASS + pod(runtimeClassName="vm", **spec)).faults
    assert fault in line


def limit_range(**item: Any) -> str:
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "defaults"}}
    return "\n---\n" + json.dumps({**body, "spec": {"limits": [{"type": "Container", **item}]}})


@pytest.mark.parametrize(
    ("item", "resources", "cpu"),
    [
        ({"defaultRequest": {"cpu": "700m"}, "default": {"cpu": "2"}}, {}, "700m"),
        ({"default": {"cpu": "900m"}}, {}, "900m"),
        ({"max": {"cpu": "3"}}, {}, "3"),
        ({"defaultRequest": {"cpu": "700m"}}, {"requests": {"cpu": "100m"}}, "100m"),
        ({"defaultRequest": {"cpu": "700m"}}, {"limits": {"cpu": "1"}}, "1"),
    ],
)
def test_containers_without_requests_get_those_of_the_limitrange(
    tmp_path: Path, item: dict[str, Any], resources: dict[str, Any], cpu: str
) -> None:
    spec: dict[str, Any] = {"containers": [{"name": "main", "image": "app", "resources": resources}]}
    for pods in (pod(**spec), workload("Deployment", replicas=1, pod=spec)):
        (claim,) = simulate(tmp_path, POOL + limit_range(**item) + pods).plan["nodeClaims"]
        assert claim["requests"]["cpu"] == cpu


def test_a_pod_of_a_cluster_keeps_the_requests_that_it_was_created_with(tmp_path: Path) -> None:
    """A LimitRange that came later does not change it."""
    spec: dict[str, Any] = {"containers": [{"name": "main", "image": "app"}], "metadata": {"uid": "abc"}}
    (claim,) = simulate(tmp_path, POOL + limit_range(defaultRequest={"cpu": "700m"}) + pod(**spec)).plan["nodeClaims"]
    assert "cpu" not in claim["requests"]


def test_sch081_a_daemonset_gets_the_defaults_of_the_limitrange_too(tmp_path: Path) -> None:
    daemon = workload("DaemonSet", "agent", pod={"containers": [{"name": "main", "image": "app"}]})
    text = POOL + limit_range(defaultRequest={"cpu": "250m"}) + daemon
    (claim,) = simulate(tmp_path, text + pod()).plan["nodeClaims"]
    assert claim["requests"]["cpu"] == "750m"


PREFERRED: dict[str, dict[str, Any]] = {
    "node affinity": {
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 1,
                        "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["us-west-2b"]}]},
                    }
                ]
            }
        }
    },
    "pods apart": {
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 1,
                        "podAffinityTerm": {
                            "topologyKey": "kubernetes.io/hostname",
                            "labelSelector": {"matchLabels": {"app": "web"}},
                        },
                    }
                ]
            }
        }
    },
    "spread": {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": "web"}},
            }
        ]
    },
}


@pytest.mark.parametrize("kind", PREFERRED)
def test_a_preference_buys_no_node_while_existing_ones_have_room(tmp_path: Path, kind: str) -> None:
    """kube-scheduler places such pods on existing nodes, so that the worker never sees them."""
    present_items = node(labels={ZONE: "us-west-2a", "kubernetes.io/hostname": "n1"})
    plan = simulate(tmp_path, POOL + present_items + deployment(replicas=4, **PREFERRED[kind])).plan
    assert (plan["nodeClaims"], plan["unschedulable"]) == ([], [])
    assert [len(entry["pods"]) for entry in plan["existingNodes"]] == [4]
    more = simulate(tmp_path, POOL + present_items + deployment(replicas=10, **PREFERRED[kind])).plan
    assert [len(entry["pods"]) for entry in more["existingNodes"]] == [8]
    assert sum(len(claim["pods"]) for claim in more["nodeClaims"]) == 2
    assert more["totals"]["pods"] == 10


def test_pods_with_preferences_take_no_room_from_more_important_pods(tmp_path: Path) -> None:
    present = node(cpu="4", labels={ZONE: "us-west-2a", "kubernetes.io/hostname": "n1"})
    important = pod("first", priority=1000, containers=[container(requests={"cpu": "3", "memory": "1Gi"})])
    plan = simulate(tmp_path, POOL + present + deployment(replicas=2, **PREFERRED["spread"]) + important).plan
    (existing,) = plan["existingNodes"]
    assert sorted(existing["pods"])[0] == "default/first"
    assert len(existing["pods"]) == 2


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            pod(containers=[container(requests={"nvidia.com/gpu": 1})]),
            "Pod default/p: spec.containers[0].resources: nvidia.com/gpu is requested without a limit, which must be "
            "equal: write it in limits too",
        ),
        (
            pod(containers=[container(requests={"nvidia.com/gpu": 1}, limits={"nvidia.com/gpu": 2})]),
            "Pod default/p: spec.containers[0].resources: requests of nvidia.com/gpu (1) must equal its limit (2)",
        ),
        (
            pod(tolerations=[{"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5}]),
            "Pod default/p: spec.tolerations[0]: tolerationSeconds needs effect NoExecute: no other effect evicts pods",
        ),
        (
            pod("Upper"),
            "Pod Upper: metadata.name: 'Upper' is not the name of an object: write it in lower case",
        ),
        (
            pod("under_score"),
            "Pod under_score: metadata.name: 'under_score' is not the name of an object: write lower-case letters, "
            "digits, - and ., at most 253",
        ),
    ],
)
def test_what_the_api_server_refuses_is_refused(tmp_path: Path, text: str, fault: str) -> None:
    assert simulate(tmp_path, POOL + text).faults == [f"document 2: {fault}"]
