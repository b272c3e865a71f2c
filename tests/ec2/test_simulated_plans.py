"""``tenon simulate`` and the worker give one plan for the same objects.

The worker reads objects of an API server, whose pods controllers created and admission changed, and EC2's instance
types for the class. A simulation reads what users write, and a catalogue.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from activities.ec2.provider import Ec2Provider
from activities.provisioning.offerings import instance_types_by_pool
from cli.simulating.cluster import FiledCache
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.kube.decode import decode_node, decode_object
from tenon.kube.limit_ranges import decode_limit_range
from tenon.kube.pod_decode import decode_daemonset, decode_pod
from tenon.kube.requirements import Requirement
from tenon.provisioning.planning_policy import PlanPolicy
from tenon.provisioning.problem import problem_of
from tenon.provisioning.readiness import usable_pools
from tenon.provisioning.solving import solve_with_buffers
from tenon.scheduling.model import InstanceType
from tenon.simulation.document import LowerBounds, plan_document
from tests.simulate.running import command
from worker.cache.planning_view import PlanningView

pytestmark = pytest.mark.integration

Object = dict[str, Any]
AGENT = {"name": "main", "image": "app"}
ON_DEMAND = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
SELECTORS: Object = {
    "role": "KarpenterNodeRole-sandbox",
    "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "sandbox"}}],
    "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "sandbox"}}],
}


def asking(cpu: str, memory: str = "512Mi", **more: str) -> Object:
    return {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu, "memory": memory, **more}}}


def metadata(name: str, **more: Any) -> Object:
    return {"name": name, "namespace": "default", **more}


def workload(kind: str, name: str, pod: Object, status: Object | None = None, **spec: Any) -> Object:
    """A workload as a user writes it."""
    template = {"metadata": {"labels": {"app": name}}, "spec": pod}
    if kind in ("Deployment", "StatefulSet", "DaemonSet"):
        spec["selector"] = {"matchLabels": {"app": name}}
    version = "batch/v1" if kind == "Job" else "apps/v1"
    body = {"apiVersion": version, "kind": kind, "metadata": metadata(name), "spec": {**spec, "template": template}}
    return {**body, **({"status": status} if status else {})}


def created(owner: str, numbers: Sequence[int], pod: Object) -> list[Object]:
    """The pods of a workload as a cluster has them."""
    waiting = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata(f"{owner}-{number}", uid=f"{owner}/{number:04}", labels={"app": owner}),
            "spec": pod,
            "status": {"phase": "Pending", "conditions": [waiting]},
        }
        for number in numbers
    ]


@dataclass(frozen=True)
class Case:
    """Objects as users write them, and the pods that a cluster makes of them."""

    pods: list[Object]
    written: list[Object] = field(default_factory=list)
    shared: list[Object] = field(default_factory=list)
    """Objects that are the same in a file and in a cluster."""
    requirements: list[Object] = field(default_factory=list)
    node_class: Object = field(default_factory=dict)
    template: Object = field(default_factory=dict)


def plain(*specs: tuple[str, int, Object], **case: Any) -> Case:
    """Deployments, each with its name, replicas and pod spec."""
    written = [workload("Deployment", name, pod, replicas=count) for name, count, pod in specs]
    return Case([pod for name, count, spec in specs for pod in created(name, range(count), spec)], written, **case)


MIXED = [
    ("web", 7, {"containers": [asking("700m", "900Mi")]}),
    ("batch", 3, {"containers": [asking("3", "2Gi")]}),
    ("cache", 2, {"containers": [asking("500m", "6Gi")]}),
]
SCRATCH = [("scratch", 3, {"containers": [asking("1", "1Gi", **{"ephemeral-storage": "60Gi"})]})]
SMALL = [("small", 40, {"containers": [asking("20m", "30Mi")]})]
RUNTIME = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "vm"},
    "handler": "vm",
    "overhead": {"podFixed": {"cpu": "600m", "memory": "200Mi"}},
    "scheduling": {
        "nodeSelector": {"kubernetes.io/arch": "arm64"},
        "tolerations": [{"key": "vm", "operator": "Exists"}],
    },
}
LIMITS = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": metadata("defaults"),
    "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "300m"}, "default": {"memory": "700Mi"}}]},
}
DEFAULTED = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "300m", "memory": "700Mi"}}}
BOXED = {"runtimeClassName": "vm", "containers": [asking("1500m", "1Gi")]}
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "name": "n1",
        "uid": "n1",
        "labels": {"kubernetes.io/hostname": "n1", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"},
    },
    "status": {
        "allocatable": {"cpu": "2", "memory": "8Gi", "pods": "20"},
        "capacity": {"cpu": "2", "memory": "8Gi", "pods": "20"},
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    },
}
DISK = [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "300Gi", "volumeType": "gp3"}}]
RESERVED = {"systemReserved": {"cpu": "300m", "memory": "500Mi"}, "evictionHard": {"memory.available": "10%"}}
WINDOWS = {"nodeSelector": {"kubernetes.io/os": "windows"}, "containers": [asking("1", "2Gi")]}

CASES: dict[str, Case] = {
    "several workloads": plain(*MIXED),
    "a node with room": plain(*MIXED, shared=[NODE]),
    "a larger disk": plain(*SCRATCH, *MIXED, node_class={"blockDeviceMappings": DISK}),
    "RAID0": plain(*SCRATCH, *MIXED, node_class={"instanceStorePolicy": "RAID0"}),
    "no room for scratch data": plain(*SCRATCH),
    "maxPods": plain(*SMALL, node_class={"kubelet": {"maxPods": 9}}),
    "podsPerCore": plain(*SMALL, node_class={"kubelet": {"podsPerCore": 3}}),
    "reserved amounts": plain(*MIXED, node_class={"kubelet": RESERVED}),
    "AL2": plain(*MIXED, node_class={"amiSelectorTerms": [{"alias": "al2@latest"}]}),
    "Bottlerocket": plain(
        *MIXED, *SMALL, node_class={"amiSelectorTerms": [{"alias": "bottlerocket@latest"}], "kubelet": {"maxPods": 40}}
    ),
    "Windows": plain(("win", 4, WINDOWS), node_class={"amiSelectorTerms": [{"alias": "windows2022@latest"}]}),
    "a NodePool's own kubelet settings": plain(
        *SMALL, template={"compatibility.karpenter.sh/v1beta1-kubelet-conversion": '{"maxPods": 7}'}
    ),
    "Jobs": Case(
        [
            *created("partly", range(2), {"containers": [asking("900m")]}),
            *created("queue", range(3), {"containers": [asking("400m")]}),
            *created("indexed", (1, 4), {"containers": [asking("1200m")]}),
        ],
        [
            workload("Job", "partly", {"containers": [asking("900m")]}, {"succeeded": 3}, parallelism=4, completions=5),
            workload("Job", "queue", {"containers": [asking("400m")]}, parallelism=3),
            workload("Job", "paused", {"containers": [asking("1")]}, parallelism=3, suspend=True),
            workload(
                "Job",
                "indexed",
                {"containers": [asking("1200m")]},
                {"succeeded": 3, "completedIndexes": "0,2-3"},
                parallelism=2,
                completions=6,
                completionMode="Indexed",
            ),
        ],
    ),
    "a StatefulSet from an ordinal": Case(
        created("db", (3, 4), {"containers": [asking("1500m")]}),
        [workload("StatefulSet", "db", {"containers": [asking("1500m")]}, replicas=2, ordinals={"start": 3})],
    ),
    "a LimitRange, also for a DaemonSet": Case(
        created("web", range(6), {"containers": [DEFAULTED]}),
        [workload("Deployment", "web", {"containers": [AGENT]}, replicas=6)],
        [LIMITS, workload("DaemonSet", "agent", {"containers": [AGENT]})],
    ),
    "a RuntimeClass": Case(
        created(
            "boxed",
            range(3),
            {
                **BOXED,
                "overhead": {"cpu": "600m", "memory": "200Mi"},
                "nodeSelector": {"kubernetes.io/arch": "arm64"},
                "tolerations": [{"key": "vm", "operator": "Exists"}],
            },
        ),
        [RUNTIME, workload("Deployment", "boxed", BOXED, replicas=3)],
    ),
}


@pytest.fixture(scope="module")
def catalogue(provider: Ec2Provider, ready_class: EC2NodeClass, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The region's instance types as a catalogue, as a class without further settings has them."""
    file: Path = tmp_path_factory.mktemp("catalogue") / "types.json"
    file.write_text(json.dumps({"instanceTypes": [_entry(kind) for kind in provider.instance_types(ready_class)]}))
    return file


def _entry(kind: InstanceType) -> Object:
    return {
        "name": kind.name,
        "requirements": {key: _values(requirement) for key, requirement in kind.requirements.items()},
        "capacity": {name: _amount(name, units) for name, units in kind.capacity.items()},
        "overhead": {name: _amount(name, units) for name, units in kind.overhead.items()},
        "offerings": [
            {
                "zone": offering.zone,
                "zoneId": offering.zone_id,
                "capacityType": offering.capacity_type,
                "price": offering.price,
            }
            for offering in kind.offerings
        ],
    }


def _values(requirement: Requirement) -> list[str]:
    return [] if requirement.complement else sorted(requirement.values)


def _amount(name: str, units: int) -> str:
    return f"{units}m" if name == "cpu" else str(units)


def class_of(case: Case) -> Object:
    spec = {"amiSelectorTerms": [{"alias": "al2023@latest"}], **SELECTORS, **case.node_class}
    body = {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass"}
    return {**body, "metadata": {"name": "default", "uid": "class", "generation": 1}, "spec": spec}


def pool_of(case: Case) -> Object:
    template = {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        "requirements": [ON_DEMAND, *case.requirements],
    }
    body = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool"}
    about = {"name": "default", "uid": "pool", "annotations": case.template}
    return {**body, "metadata": about, "spec": {"template": {"spec": template}}}


def planned_by_worker(case: Case, provider: Ec2Provider, ready_class: EC2NodeClass) -> Object:
    """The plan from a cluster's objects: the worker's cache, its provider of types, its problem and its engine."""
    resolved = {**class_of(case), "status": ready_class.status.to_dict()}  # the sandbox has no image of some families
    cache = FiledCache(1_800_000_000.0)
    tables: dict[str, tuple[Any, Any]] = {
        "EC2NodeClass": (decode_object, cache.nodeclasses),
        "NodePool": (decode_object, cache.pools),
        "LimitRange": (decode_limit_range, cache.limit_ranges),
        "DaemonSet": (decode_daemonset, cache.daemonsets),
        "Node": (decode_node, cache.nodes),
        "Pod": (decode_pod, cache.pods),
    }
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    pool = {**pool_of(case), "status": {"conditions": [ready]}}
    for body in (resolved, pool, *case.shared, *case.pods):
        decode, table = tables[body["kind"]]
        record = decode(msgspec.json.encode(body))
        table.on_event(record.key, record)
    view = PlanningView(cache)
    pools = usable_pools(view.node_pools(), view.node_class)
    assert pools
    pools_with_types = asyncio.run(instance_types_by_pool(view, provider, pools)).pools_with_types
    problem = problem_of(view.snapshot(), view.pending_pods(), pools_with_types, PlanPolicy())
    plan = solve_with_buffers(problem)
    return plan_document(plan, problem=problem, solve_seconds=0.0, lower_bounds=LowerBounds())


@pytest.mark.parametrize("name", CASES)
def test_a_simulation_plans_what_the_worker_plans(
    name: str, provider: Ec2Provider, ready_class: EC2NodeClass, catalogue: Path, tmp_path: Path
) -> None:
    case = CASES[name]
    file = tmp_path / "objects.json"
    written = [class_of(case), pool_of(case), *case.shared, *case.written]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": written}))
    simulated = command("-f", str(file), "--catalog", str(catalogue), "-o", "json").plan
    worker = json.loads(json.dumps(planned_by_worker(case, provider, ready_class)))
    for part in ("nodeClaims", "existingNodes", "unschedulable"):
        assert simulated[part] == worker[part], part
    assert simulated["totals"]["pods"] == len(case.pods)
