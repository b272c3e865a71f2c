"""The EC2NodeClass in ``tenon simulate``: its disks, limits and family change what a node holds, as in the worker."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cli.simulating import builtin
from cli.simulating.files import read_catalogue_file
from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.ec2.types.instance_types import Prices, build, supported
from tenon.ec2.types.settings import settings_of
from tenon.kube.requirements import DOES_NOT_EXIST, Requirement
from tenon.scheduling.model import InstanceType
from tenon.simulation.class_types import PLAIN, ClassTypes
from tests.ec2.samples import node_class
from tests.simulate.running import POOL, Answer, command, deployment, simulate

FAMILIES = "{key: karpenter.k8s.aws/instance-family, operator: In, values: [m5, m5d, c5d]}"
POOL_OF_FAMILIES = POOL.replace("requirements: [", f"requirements: [{FAMILIES}, ")


def class_document(status: dict[str, Any] | None = None, **spec: Any) -> str:
    """A class as YAML; keyword arguments are fields of its spec."""
    declaration = {
        "role": "nodes",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": {"net": "x"}}],
        "securityGroupSelectorTerms": [{"tags": {"net": "x"}}],
        **spec,
    }
    body = {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"}}
    return "\n---\n" + json.dumps({**body, "spec": declaration, **({"status": status} if status else {})})


def built_in(folder: Path, text: str, *options: str) -> Answer:
    """Simulate on the built-in catalogue."""
    file = folder / "input.yaml"
    file.write_text(text)
    return command("-f", str(file), "-o", "json", *options)


def scratch(gibibytes: int) -> str:
    """A pod that needs this much ephemeral storage."""
    requests = {"cpu": "1", "memory": "1Gi", "ephemeral-storage": f"{gibibytes}Gi"}
    container = {"name": "main", "image": "app", "resources": {"requests": requests}}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "scratch"}, "spec": {"containers": [container]}}
    return "\n---\n" + json.dumps(body)


def with_image(*archs: str) -> str:
    """A class with an image for each architecture, as a live cluster has it."""
    amis = [
        {"id": f"ami-{arch}", "requirements": [{"key": labels.ARCH, "operator": "In", "values": [arch]}]}
        for arch in archs
    ]
    return class_document({"amis": amis})


def test_a_plan_buys_only_types_that_an_image_of_the_class_boots(tmp_path: Path) -> None:
    """c6g is the cheapest family of the catalogue."""
    pods = deployment(replicas=1)
    (arm_claim,) = simulate(tmp_path, POOL + pods + class_document()).plan["nodeClaims"]
    (amd_claim,) = simulate(tmp_path, POOL + pods + with_image("amd64")).plan["nodeClaims"]
    (mixed_claim,) = simulate(tmp_path, POOL + pods + with_image("amd64", "arm64")).plan["nodeClaims"]
    assert arm_claim["instanceTypes"][0].startswith("c6g.")
    assert mixed_claim["instanceTypes"] == arm_claim["instanceTypes"]
    assert amd_claim["instanceTypes"]
    assert not any(name.startswith("c6g.") for name in amd_claim["instanceTypes"])


def test_a_pod_that_no_image_of_the_class_boots_says_so(tmp_path: Path) -> None:
    on_arm = deployment(replicas=1, nodeSelector={labels.ARCH: "arm64"})
    plan = simulate(tmp_path, POOL + on_arm + with_image("amd64")).plan
    assert plan["nodeClaims"] == []
    (entry,) = plan["unschedulable"]
    assert entry["reason"].startswith("NodePool default: no image of EC2NodeClass default boots arm64: ")


def test_raid0_gives_pods_the_instance_store(tmp_path: Path) -> None:
    text = POOL_OF_FAMILIES + scratch(60)
    plan = built_in(tmp_path, text + class_document(instanceStorePolicy="RAID0")).plan
    (claim,) = plan["nodeClaims"]
    assert {name.partition(".")[0] for name in claim["instanceTypes"]} == {"m5d", "c5d"}
    without = built_in(tmp_path, text + class_document()).plan
    assert (len(without["nodeClaims"]), len(without["unschedulable"])) == (0, 1)


RAID0: dict[str, Any] = {"instanceStorePolicy": "RAID0"}
SECOND = POOL_OF_FAMILIES.replace("{name: default}\n", "{name: disks}\n", 1).replace("name: default}", "name: disks}")


@pytest.mark.parametrize(
    ("pools", "spec", "gibibytes", "families"),
    [
        (POOL_OF_FAMILIES, RAID0, 500, {"m5d", "c5d"}),
        (POOL_OF_FAMILIES, {**RAID0, "amiSelectorTerms": [{"alias": "bottlerocket@latest"}]}, 60, {"m5d", "c5d"}),
        (POOL_OF_FAMILIES, RAID0, 9000, set()),
        (POOL_OF_FAMILIES, RAID0, 10, {"m5", "m5d", "c5d"}),
    ],
    ids=["a large pod", "Bottlerocket", "larger than every disk", "fits on the root volume"],
)
def test_raid0_counts_for_types_with_disks_only(
    tmp_path: Path, pools: str, spec: dict[str, Any], gibibytes: int, families: set[str]
) -> None:
    plan = built_in(tmp_path, pools + class_document(**spec) + scratch(gibibytes)).plan
    partitions = {name.partition(".")[0] for claim in plan["nodeClaims"] for name in claim["instanceTypes"]}
    assert partitions == families


def test_raid0_of_one_class_is_not_for_the_nodes_of_another(tmp_path: Path) -> None:
    disks = class_document(**RAID0).replace('"name": "default"', '"name": "disks"')
    (claim,) = built_in(tmp_path, f"{POOL_OF_FAMILIES}---\n{SECOND}{class_document()}{disks}{scratch(60)}").plan[
        "nodeClaims"
    ]
    assert claim["nodePool"] == "disks"


def test_the_size_of_the_classs_disk_is_the_room_for_scratch_data(tmp_path: Path) -> None:
    disk = {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "100Gi", "volumeType": "gp3"}}
    text = POOL_OF_FAMILIES + class_document(blockDeviceMappings=[disk])
    assert len(built_in(tmp_path, text + scratch(80)).plan["nodeClaims"]) == 1
    assert built_in(tmp_path, text + scratch(100)).plan["nodeClaims"] == []


@pytest.mark.parametrize(
    ("kubelet", "least"),
    [({"maxPods": 5}, 4), ({"podsPerCore": 1}, 3), ({"systemReserved": {"cpu": "900m"}, "maxPods": 200}, 1)],
)
def test_the_kubelets_limits_hold_for_new_nodes(tmp_path: Path, kubelet: dict[str, Any], least: int) -> None:
    small = POOL.replace(
        "requirements: [",
        "requirements: [" + "{key: node.kubernetes.io/instance-type, operator: In, values: [c5.2xlarge]}, ",
    )
    text = small + deployment(replicas=20, cpu="10m", memory="10Mi")
    plan = built_in(tmp_path, text + class_document(kubelet=kubelet)).plan
    assert len(built_in(tmp_path, text + class_document()).plan["nodeClaims"]) == 1
    assert len(plan["nodeClaims"]) == least


def test_reserved_amounts_are_not_for_pods(tmp_path: Path) -> None:
    item = "{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}"
    text = POOL.replace("requirements: [", f"requirements: [{item}, ") + deployment(replicas=1, cpu="1500m")
    assert len(built_in(tmp_path, text).plan["nodeClaims"]) == 1
    reserved = class_document(kubelet={"systemReserved": {"cpu": "500m"}})
    assert built_in(tmp_path, text + reserved).plan["nodeClaims"] == []


def test_a_windows_class_has_windows_nodes(tmp_path: Path) -> None:
    windows = class_document(amiSelectorTerms=[{"alias": "windows2022@latest"}])
    pods = deployment(replicas=1, nodeSelector={"kubernetes.io/os": "windows"})
    (claim,) = built_in(tmp_path, POOL_OF_FAMILIES + windows + pods).plan["nodeClaims"]
    assert {"key": "kubernetes.io/os", "operator": "In", "values": ["windows"]} in claim["requirements"]
    linux = built_in(tmp_path, POOL_OF_FAMILIES + class_document() + pods).plan
    assert (linux["nodeClaims"], len(linux["unschedulable"])) == ([], 1)


def test_v1b04_kubelet_settings_of_the_nodepool_override_those_of_the_class(tmp_path: Path) -> None:
    kubelet = "compatibility.karpenter.sh/v1beta1-kubelet-conversion: '{\"maxPods\": 5}'"
    annotation = f"metadata: {{name: default, annotations: {{{kubelet}}}}}"
    text = POOL.replace("metadata: {name: default}", annotation) + deployment(replicas=6, cpu="10m", memory="10Mi")
    assert len(built_in(tmp_path, text).plan["nodeClaims"]) == 2


def test_ec15_expressions_give_each_type_its_own_limit(tmp_path: Path) -> None:
    text = POOL_OF_FAMILIES + class_document(kubelet={"maxPods": "vcpus + 3"})
    text += deployment(replicas=6, cpu="10m", memory="10Mi")
    gate = ("--set", "AWS_FEATURE_GATES=NodeClassCEL=true")
    (claim,) = built_in(tmp_path, text, *gate).plan["nodeClaims"]
    assert not any(name.endswith(".large") for name in claim["instanceTypes"])


def test_settings_about_capacity_count(tmp_path: Path) -> None:
    item = "{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}"
    text = POOL.replace("requirements: [", f"requirements: [{item}, ") + deployment(replicas=20, cpu="1m", memory="1Mi")
    assert len(built_in(tmp_path, text).plan["nodeClaims"]) == 1
    assert len(built_in(tmp_path, text, "--set", "RESERVED_ENIS=2").plan["nodeClaims"]) == 2
    heavy = POOL.replace("requirements: [", f"requirements: [{item}, ") + deployment(replicas=1, memory="6500Mi")
    assert len(built_in(tmp_path, heavy).plan["nodeClaims"]) == 1
    assert built_in(tmp_path, heavy, "--set", "VM_MEMORY_OVERHEAD_PERCENT=0.2").plan["nodeClaims"] == []


def test_a_users_catalogue_keeps_its_figures_where_the_class_changes_none(tmp_path: Path) -> None:
    entry = {
        "name": "own.large",
        "requirements": {"kubernetes.io/arch": ["amd64"], "kubernetes.io/os": ["linux"]},
        "capacity": {"cpu": "3", "memory": "7Gi", "pods": "13", "ephemeral-storage": "33Gi"},
        "overhead": {"cpu": "111m"},
        "offerings": [{"zone": "z", "capacityType": "on-demand", "price": 1.0}],
    }
    file = tmp_path / "own.json"
    file.write_text(json.dumps({"instanceTypes": [entry]}))
    types, _ = read_catalogue_file(str(file))
    limited = ClassTypes(types, builtin.descriptions, settings_of).of(node_class(kubelet={"maxPods": 4}))
    assert limited == [replace(types[0], capacity={**types[0].capacity, "pods": 4})]
    pods = POOL + class_document(kubelet={"maxPods": 4}) + deployment(replicas=5, cpu="10m", memory="10Mi")
    assert len(simulate(tmp_path, pods, "--catalog", str(file)).plan["nodeClaims"]) == 2


CLASSES: dict[str, EC2NodeClass] = {
    "plain": node_class(),
    "al2": node_class(amiSelectorTerms=[{"alias": "al2@latest"}]),
    "bottlerocket": node_class(amiSelectorTerms=[{"alias": "bottlerocket@latest"}], kubelet={"maxPods": 30}),
    "windows": node_class(amiSelectorTerms=[{"alias": "windows2022@latest"}]),
    "raid0": node_class(instanceStorePolicy="RAID0"),
    "kubelet": node_class(
        kubelet={
            "podsPerCore": 4,
            "kubeReserved": {"cpu": "200m", "memory": "1Gi"},
            "systemReserved": {"memory": "100Mi"},
            "evictionHard": {"memory.available": "5%", "nodefs.available": "10Gi"},
        }
    ),
    "disk": node_class(blockDeviceMappings=[{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "200Gi"}}]),
    "expressions": node_class(kubelet={"maxPods": "vcpus * 4", "kubeReserved": {"memory": "max_pods * 11 + 100"}}),
    "network": node_class(networkInterfaces=[{"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}]),
    "group": node_class({"placementGroup": {"id": "pg-1", "name": "g", "strategy": "cluster"}}),
}


@pytest.mark.parametrize("name", CLASSES)
def test_each_class_has_the_figures_that_the_worker_plans_with(name: str) -> None:
    """The worker builds types from EC2's descriptions; a simulation applies the class to a catalogue."""
    node_class = CLASSES[name]
    settings = settings_of(node_class)
    plain, _ = read_catalogue_file(None)
    simulated = {kind.name: kind for kind in ClassTypes(plain, builtin.descriptions, settings_of).of(node_class)}
    items = builtin.descriptions()
    assert simulated.keys() == {item for item in items if supported(items[item], settings)}
    for kind in plain:
        if kind.name in simulated:
            _same(simulated[kind.name], built_by_worker(kind, node_class))


def built_by_worker(kind: InstanceType, node_class: EC2NodeClass) -> InstanceType:
    zones = {offering.zone: offering.zone_id for offering in kind.offerings}
    built = build(
        builtin.descriptions()[kind.name],
        "us-west-2",
        settings_of(node_class),
        zones,
        Prices(on_demand={kind.name: 1.0}),
    )
    assert built is not None
    return built


def _same(simulated: InstanceType, worker: InstanceType) -> None:
    own = {key: value for key, value in simulated.capacity.items() if value}
    assert (own, simulated.overhead) == (worker.capacity, worker.overhead), simulated.name
    keys = (labels.OS, labels.ARCH, labels.WINDOWS_BUILD, labels.PLACEMENT_GROUP_ID, "karpenter.k8s.aws/instance-cpu")
    for key in keys:
        without = Requirement.new(key, DOES_NOT_EXIST, ())  # a label that a catalogue leaves out does not exist
        requirement = simulated.requirements.get(key) if key in simulated.requirements else without
        assert requirement == worker.requirements.get(key), (simulated.name, key)


def test_the_built_in_descriptions_lead_to_the_built_in_catalogue() -> None:
    plain, _ = read_catalogue_file(None)
    assert builtin.descriptions().keys() == {kind.name for kind in plain}
    assert settings_of(node_class()) == PLAIN
    for kind in plain:
        _same(kind, built_by_worker(kind, node_class()))
