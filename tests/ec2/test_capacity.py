"""What pods can use of an instance type."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tenon.apis.ami_families import AMIFamily
from tenon.ec2.families import FAMILIES
from tenon.ec2.families.base import GIB, EbsVolume
from tenon.ec2.types import capacity
from tenon.ec2.types.branch_interfaces import POD_ENI, branch_interfaces
from tenon.ec2.types.capacity import MIB, InstanceReserve, NodeSettings
from tenon.ec2.types.settings import settings_of
from tenon.resources import parse_resources
from tests.ec2.samples import instance_type, item, node_class, rows

M5 = item("m5.large")
ACCELERATORS = (
    "nvidia.com/gpu",
    "amd.com/gpu",
    "habana.ai/gaudi",
    "aws.amazon.com/neuron",
    "aws.amazon.com/neuroncore",
)


@pytest.mark.parametrize("name", rows())
def test_catalogue_figures_are_reproduced(name: str) -> None:
    """AWS-060..074: capacity and overhead of known types."""
    row = rows()[name]
    result = capacity.capacity(row["item"], NodeSettings())
    result.pop(POD_ENI, None)  # which EC2 does not describe
    assert result == parse_resources(row["capacity"])
    assert capacity.overhead(row["item"], NodeSettings()) == parse_resources(row["overhead"])


def with_cpus(count: int) -> dict[str, Any]:
    return M5 | {"VCpuInfo": {"DefaultVCpus": count}}


def with_memory(mib: int, *architectures: str) -> dict[str, Any]:
    described = {"SupportedArchitectures": list(architectures)}
    return M5 | {"MemoryInfo": {"SizeInMiB": mib}, "ProcessorInfo": described}


@pytest.mark.parametrize(
    ("described", "share", "mib"),
    [
        (with_memory(8192, "x86_64"), "0.075", 8192 - 615),
        (with_memory(8192, "arm64"), "0.075", 8192 - 64 - 610),
        (with_memory(8192, "arm64"), "0", 8192 - 64),
        (with_memory(8192, "x86_64", "arm64"), "0", 8192),
        (with_memory(1001, "x86_64"), "0.001", 1001 - 2),
    ],
)
def test_aws061_firmware_and_hypervisor_take_memory(described: dict[str, Any], share: str, mib: int) -> None:
    """On Arm 64 MiB first; then the share of VM_MEMORY_OVERHEAD_PERCENT, rounded up to a whole MiB."""
    assert capacity.memory_bytes(described, NodeSettings(reserve=InstanceReserve(Decimal(share)))) == mib * MIB


def test_aws065_prefixes_on_the_interface_give_no_more_pods() -> None:
    """Users set maxPods. The count of prefixes reaches the launch template only."""
    plain, prefixed = node_class(), node_class(ipPrefixCount=4)
    assert capacity.capacity(M5, settings_of(prefixed)) == capacity.capacity(M5, settings_of(plain))
    assert capacity.overhead(M5, settings_of(prefixed)) == capacity.overhead(M5, settings_of(plain))
    assert capacity.max_pods(M5, settings_of(prefixed)) == 29


@pytest.mark.parametrize(("name", "family", "mib"), [("m5.large", "AL2023", 574), ("m5.large", "Windows2022", 1465)])
def test_aws066_the_kubelet_keeps_memory_for_each_pod(name: str, family: AMIFamily, mib: int) -> None:
    """255 MiB and 11 MiB for each of the 29 or 110 pods."""
    reserved = capacity.kube_reserved(item(name), NodeSettings(family=FAMILIES[family]))
    assert reserved["memory"] == mib * MIB


@pytest.mark.parametrize(("cpus", "millicores"), [(1, 60), (2, 70), (3, 75), (4, 80), (5, 82), (8, 90), (96, 310)])
def test_aws067_the_kubelet_keeps_a_falling_share_of_each_core(cpus: int, millicores: int) -> None:
    """6 % of the first, 1 % of the second, half a percent of two more, a quarter of the rest, in whole millicores."""
    assert capacity.kube_reserved(with_cpus(cpus), NodeSettings())["cpu"] == millicores


@pytest.mark.parametrize("family", FAMILIES)
def test_aws068_the_kubelet_keeps_a_gibibyte_of_disk(family: AMIFamily) -> None:
    assert capacity.kube_reserved(M5, NodeSettings(family=FAMILIES[family]))["ephemeral-storage"] == GIB


def test_aws072_pods_get_what_reserves_and_eviction_leave() -> None:
    kubelet = {"systemReserved": {"cpu": "30m", "memory": "26Mi"}}
    allocatable = instance_type("m5.large", settings=NodeSettings(kubelet=kubelet)).allocatable
    assert allocatable["cpu"] == 2000 - 70 - 30
    assert allocatable["memory"] == (7577 - 574 - 26 - 100) * MIB
    assert allocatable["ephemeral-storage"] == 20 * GIB - GIB - 2 * GIB
    assert allocatable["pods"] == 29


@pytest.mark.parametrize(
    ("described", "devices"),
    [
        (item("g4dn.xlarge"), {"nvidia.com/gpu": 1}),
        (item("p4d.24xlarge"), {"nvidia.com/gpu": 8}),
        (M5 | {"GpuInfo": {"Gpus": [{"Manufacturer": "AMD", "Count": 2}]}}, {"amd.com/gpu": 2}),
        (M5 | {"GpuInfo": {"Gpus": [{"Manufacturer": "Habana", "Count": 8}]}}, {"habana.ai/gaudi": 8}),
        (item("inf1.xlarge"), {"aws.amazon.com/neuron": 1, "aws.amazon.com/neuroncore": 4}),
        (item("trn1.32xlarge"), {"aws.amazon.com/neuron": 16, "aws.amazon.com/neuroncore": 32}),
        (M5, {}),
    ],
    ids=["nvidia", "8 nvidia", "amd", "gaudi", "inferentia", "trainium", "none"],
)
def test_aws073_accelerators_are_resources(described: dict[str, Any], devices: dict[str, int]) -> None:
    """As EC2 describes them: the manufacturer names the resource, and Neuron counts devices and their cores."""
    result = capacity.capacity(described, NodeSettings())
    assert {key: count for key, count in result.items() if key in ACCELERATORS} == devices


@pytest.mark.parametrize(
    ("family", "kubelet", "pods"),
    [
        ("AL2023", {}, 29),
        ("AL2023", {"maxPods": 110}, 110),
        ("AL2023", {"maxPods": 0}, 0),
        ("AL2023", {"podsPerCore": 4}, 8),
        ("AL2023", {"podsPerCore": 100}, 29),
        ("AL2023", {"podsPerCore": 0}, 29),
        ("Bottlerocket", {"podsPerCore": 4}, 29),
        ("Windows2022", {}, 110),
        ("Custom", {}, 29),
    ],
)
def test_max_pods(family: AMIFamily, kubelet: dict[str, int], pods: int) -> None:
    """AWS-063: maxPods, else the interfaces' formula, bounded by podsPerCore where the family knows it."""
    assert capacity.max_pods(M5, NodeSettings(family=FAMILIES[family], kubelet=kubelet)) == pods


def test_reserved_interfaces_carry_no_pods() -> None:
    """AWS-064: (3 - 1) x 9 + 2; no interface left means no pods, not two."""
    assert capacity.eni_limited_pods(M5, NodeSettings(reserve=InstanceReserve(interfaces=1))) == 20
    assert capacity.eni_limited_pods(M5, NodeSettings(efa_only_interfaces=(0, 1))) == 20
    assert capacity.eni_limited_pods(M5, NodeSettings(reserve=InstanceReserve(interfaces=9))) == 0


def test_only_the_default_card_counts_for_pods() -> None:
    """AWS-064: a p4d has four cards, pods' addresses come from one."""
    assert capacity.eni_limited_pods(item("p4d.24xlarge"), NodeSettings()) == 15 * 49 + 2


def test_kubelet_memory_does_not_follow_the_interfaces_on_bottlerocket() -> None:
    """AWS-069: with maxPods 110, Amazon Linux still reckons with 29 pods."""
    limited = {"maxPods": 110}
    al2023 = capacity.kube_reserved(M5, NodeSettings(family=FAMILIES["AL2023"], kubelet=limited))
    bottlerocket = capacity.kube_reserved(M5, NodeSettings(family=FAMILIES["Bottlerocket"], kubelet=limited))
    assert al2023["memory"] == (255 + 11 * 29) * MIB
    assert bottlerocket["memory"] == (255 + 11 * 110) * MIB


@pytest.mark.parametrize(
    ("name", "mib"),
    [("t3.medium", 442), ("m5.large", 574), ("p4d.24xlarge", 8362)],
)
@pytest.mark.parametrize("family", ["AL2", "AL2023", "Custom"])
@pytest.mark.parametrize(
    "settings",
    [
        {"reserve": InstanceReserve(interfaces=1)},
        {"kubelet": {"maxPods": 110}},
        {"efa_only_interfaces": (0,), "lists_interfaces": True},
        {},
    ],
    ids=str,
)
def test_aws069_neither_reserved_interfaces_nor_max_pods_change_the_memory_of_the_kubelet(
    name: str, mib: int, family: AMIFamily, settings: dict[str, Any]
) -> None:
    """What nodeadm reserves on the node: 255 MiB, and 11 MiB for each pod that all interfaces have addresses for.

    The figures are 255 + 11 * (interfaces * (addresses - 1) + 2) with EC2's documented limits: 3 interfaces with 6
    addresses (t3.medium), 3 with 10 (m5.large), 15 with 50 (p4d.24xlarge, its default card). Otherwise full plans do
    not fit a node of a cluster with custom networking, where RESERVED_ENIS is 1.
    """
    reserved = capacity.kube_reserved(item(name), NodeSettings(family=FAMILIES[family], **settings))
    assert reserved["memory"] == mib * MIB


def test_reserved_maps_win_key_by_key() -> None:
    """AWS-070: only the keys given replace the computed ones; process ids are no resource of pods."""
    kubelet = {"kubeReserved": {"cpu": "200m", "pid": "1000"}, "systemReserved": {"memory": "100Mi"}}
    plain, value = (capacity.overhead(M5, NodeSettings(kubelet=k)) for k in ({}, kubelet))
    assert value["cpu"] == 200
    assert value["memory"] == plain["memory"] + 100 * MIB
    assert "pid" not in value


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [("5%", -(-7577 * MIB * 5 // 100)), ("100%", 0), ("300Mi", 300 * MIB), (None, 100 * MIB)],
)
def test_memory_eviction_threshold(threshold: str | None, expected: int) -> None:
    """AWS-071: percentages are of capacity, 100 % switches off."""
    settings = NodeSettings(kubelet={"evictionHard": {"memory.available": threshold}} if threshold else {})
    assert capacity.eviction_threshold(capacity.capacity(M5, settings), settings)["memory"] == expected


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [("5%", -(-33 * GIB // 20)), ("100%", 0), ("3Gi", 3 * GIB), (None, -(-33 * GIB // 10))],
)
def test_disk_eviction_threshold(threshold: str | None, expected: int) -> None:
    """AWS-071: of the 33 GiB of pods' storage, a tenth by default, rounded up to a whole byte."""
    kubelet = {"evictionHard": {"nodefs.available": threshold}} if threshold else {}
    settings = NodeSettings(kubelet=kubelet, volumes=(EbsVolume("/dev/xvda", 33 * GIB),))
    resources = capacity.eviction_threshold(capacity.capacity(M5, settings), settings)
    assert resources["ephemeral-storage"] == expected


def test_soft_thresholds_take_nothing_away() -> None:
    """AWS-071."""
    soft = NodeSettings(kubelet={"evictionSoft": {"memory.available": "2Gi"}})
    assert capacity.overhead(M5, soft) == capacity.overhead(M5, NodeSettings())


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (NodeSettings(), 20 * GIB),
        (NodeSettings(raid0=True), 118 * 10**9),
        (NodeSettings(volumes=(EbsVolume("/dev/xvda", 50 * GIB),)), 50 * GIB),
        (NodeSettings(volumes=(EbsVolume("/dev/xvda", 50 * GIB), EbsVolume("/x", 70 * GIB, root=True))), 70 * GIB),
        (NodeSettings(volumes=(EbsVolume("/dev/sdb", 50 * GIB),)), 20 * GIB),
        (NodeSettings(volumes=(EbsVolume("/dev/xvda", 0),)), 20 * GIB),
        (NodeSettings(family=FAMILIES["Bottlerocket"], volumes=(EbsVolume("/dev/xvda", 9 * GIB),)), 20 * GIB),
        (NodeSettings(family=FAMILIES["Bottlerocket"], volumes=(EbsVolume("/dev/xvdb", 90 * GIB),)), 90 * GIB),
        (NodeSettings(family=FAMILIES["Custom"]), 20 * GIB),
        (NodeSettings(family=FAMILIES["Custom"], volumes=(EbsVolume("/a", GIB), EbsVolume("/b", 33 * GIB))), 33 * GIB),
        (NodeSettings(family=FAMILIES["Windows2022"]), 50 * GIB),
        (NodeSettings(family=FAMILIES["Windows2022"], volumes=(EbsVolume("/dev/sda1", 0),)), 50 * GIB),
        (
            NodeSettings(
                family=FAMILIES["Bottlerocket"],
                volumes=(EbsVolume("/dev/xvda", 0, root=True), EbsVolume("/dev/xvdb", 500 * GIB)),
            ),
            500 * GIB,
        ),
    ],
)
def test_ephemeral_storage(settings: NodeSettings, expected: int) -> None:
    """AWS-062: local disks with RAID0, else the volume that pods' storage is on."""
    assert capacity.storage_bytes(item("m6gd.large"), settings) == expected


def test_raid0_without_local_disks_changes_nothing() -> None:
    """AWS-062."""
    assert capacity.storage_bytes(M5, NodeSettings(raid0=True)) == 20 * GIB


def test_listed_interfaces_decide_efa() -> None:
    """AWS-074: as many as the class lists, none when it lists only plain ones."""
    p4d = item("p4d.24xlarge")
    two = NodeSettings(lists_interfaces=True, efa_only_interfaces=(1, 2))
    assert capacity.capacity(p4d, two)["vpc.amazonaws.com/efa"] == 2
    assert "vpc.amazonaws.com/efa" not in capacity.capacity(p4d, NodeSettings(lists_interfaces=True))


def test_aws073_a_part_of_a_gpu_counts_as_none() -> None:
    """As EC2 describes g6f.large: a pod that asks for a GPU would get an eighth of one, because it costs least."""
    (gpu,) = item("g4dn.xlarge")["GpuInfo"]["Gpus"]
    part = gpu | {"Count": 0, "LogicalGpuCount": 1, "GpuPartitionSize": 0.125}
    described = item("g4dn.xlarge") | {"GpuInfo": {"Gpus": [part]}}
    assert "nvidia.com/gpu" not in capacity.capacity(described, NodeSettings())


def test_windows_offers_addresses() -> None:
    """AWS-076."""
    settings = NodeSettings(family=FAMILIES["Windows2022"])
    assert capacity.capacity(M5, settings)["vpc.amazonaws.com/PrivateIPv4Address"] == 9


@pytest.mark.parametrize(
    ("name", "count"),
    [("m5.large", 9), ("m7g.medium", 4), ("m5n.metal", 107), ("c7i-flex.large", 3), ("t3.large", 0), ("m4.large", 0)],
)
def test_aws075_pods_with_security_groups_of_their_own_go_where_there_is_a_trunk(name: str, count: int) -> None:
    """ARS-01: as many as the VPC's limits give the type; without a trunk the resource is not there at all."""
    assert branch_interfaces(name) == count
    described = {**M5, "InstanceType": name}
    assert capacity.capacity(described, NodeSettings()).get(POD_ENI, 0) == count
    assert (POD_ENI in capacity.capacity(described, NodeSettings())) is (count > 0)
