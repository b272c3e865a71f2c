"""The resources of an instance type: its capacity, and the overhead that pods cannot use.

All figures follow from EC2's description of the type and the kubelet settings of the node class. A plan made before a
node exists therefore matches the node that joins.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from tenon import resources
from tenon.apis.ec2nodeclass import PlacementGroup
from tenon.ec2.families.al2023 import AL2023
from tenon.ec2.families.base import GIB, EbsVolume, Family
from tenon.ec2.types.branch_interfaces import POD_ENI, branch_interfaces
from tenon.ec2.types.learned_amounts import Figure, huge_pages, missing
from tenon.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources

MIB = 2**20
DEFAULT_PODS = 110
DEFAULT_STORAGE = 20 * GIB
_ARM_FIRMWARE_MIB = 64
LEAST_LEARNED = Decimal("0.75")
"""The least part of EC2's figure that a node is believed to have. Kernel and hypervisor take a tenth of small types."""
_CPU_BANDS = ((1000, Decimal("0.06")), (1000, Decimal("0.01")), (2000, Decimal("0.005")))
"""Kube-reserved CPU: (width in millicores, share) from the first core on. The rest reserves a quarter of a percent."""
_CPU_REST = Decimal("0.0025")
_GPU_RESOURCES = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "habana": "habana.ai/gaudi"}

Item = Mapping[str, Any]
"""One element of ``InstanceTypes`` in DescribeInstanceTypes."""


@dataclass(frozen=True, slots=True)
class InstanceReserve:
    """What of each instance Tenon does not count on, as the operator says."""

    memory_share: Decimal = Decimal("0.075")
    """VM_MEMORY_OVERHEAD_PERCENT: what hypervisor and kernel take of the memory that EC2 names."""
    interfaces: int = 0
    """RESERVED_ENIS: network interfaces that pods get no addresses of."""


DEFAULT_RESERVE = InstanceReserve()


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """What a node class and the operator's settings say about the resources of its nodes."""

    family: Family = AL2023
    kubelet: Mapping[str, Any] = field(default_factory=dict)
    """The kubelet settings of the class (camelCase), as written or with expressions evaluated for an instance type."""
    volumes: tuple[EbsVolume, ...] = ()
    raid0: bool = False
    efa_only_interfaces: tuple[int, ...] = ()
    """The network card index of each efa-only interface that the class lists."""
    lists_interfaces: bool = False
    device_indexes: Mapping[int, int] = field(default_factory=dict)
    """By network card index: the largest device index of the interfaces that the class lists."""
    needs_nitro: bool = False
    needs_nested_virtualization: bool = False
    needs_enclaves: bool = False
    placement_group: PlacementGroup | None = None
    reserve: InstanceReserve = DEFAULT_RESERVE
    learned_memory: Mapping[str, int] = field(default_factory=dict)
    """Bytes by instance type, as nodes reported them: in place of the share of ``reserve``."""
    learned_storage: Mapping[int, int] = field(default_factory=dict)
    """The ephemeral storage that pods get, as nodes reported it, by the bytes that the other settings leave."""
    learned_amounts: Mapping[str, Mapping[str, Figure]] = field(default_factory=dict)
    """By instance type and resource: other amounts that pods get, as nodes reported them."""


def default_interfaces(item: Item) -> int:
    """Return the number of network interfaces of the default network card."""
    network = item["NetworkInfo"]
    default_card = network.get("DefaultNetworkCardIndex", 0)
    for card in network.get("NetworkCards", ()):
        if card["NetworkCardIndex"] == default_card:
            return int(card["MaximumNetworkInterfaces"])
    return int(network["MaximumNetworkInterfaces"])


def eni_limited_pods(item: Item, settings: NodeSettings) -> int:
    """Return how many pods the VPC network plugin can give an address; 0 if the type has no usable interfaces."""
    interfaces = max(default_interfaces(item) - settings.reserve.interfaces - settings.efa_only_interfaces.count(0), 0)
    return int(interfaces * (item["NetworkInfo"]["Ipv4AddressesPerInterface"] - 1) + 2) if interfaces else 0


def max_pods(item: Item, settings: NodeSettings) -> int:
    """Return the kubelet's pod limit on this type."""
    pods = settings.kubelet.get("maxPods")
    if pods is None:
        pods = eni_limited_pods(item, settings) if settings.family.eni_limited_pods else DEFAULT_PODS
    per_core = settings.kubelet.get("podsPerCore")
    if per_core and settings.family.pods_per_core:
        pods = min(pods, per_core * item["VCpuInfo"]["DefaultVCpus"])
    return int(pods)


def memory_bytes(item: Item, settings: NodeSettings) -> int:
    """Return the memory that the operating system sees: what a node of the type reported, or else EC2's figure minus
    firmware and hypervisor.

    A report is believed between `LEAST_LEARNED` of EC2's figure and all of it, because one kubelet that lies must not
    make plans avoid a type.
    """
    mib = int(item["MemoryInfo"]["SizeInMiB"])
    learned = settings.learned_memory.get(item["InstanceType"])
    if learned is not None:
        return min(max(learned, int(mib * LEAST_LEARNED) * MIB), mib * MIB)
    if item["ProcessorInfo"]["SupportedArchitectures"][0] == "arm64":
        mib -= _ARM_FIRMWARE_MIB
    return int(mib - math.ceil(mib * settings.reserve.memory_share)) * MIB


def storage_bytes(item: Item, settings: NodeSettings) -> int:
    """Return the ephemeral storage of the node, in bytes."""
    instance_store = item.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0)
    if settings.raid0 and instance_store:
        return int(instance_store) * 10**9
    return _volume_bytes(settings) or DEFAULT_STORAGE


def _volume_bytes(settings: NodeSettings) -> int:
    """Return the size of the volume that holds pods' storage; 0 if none of those that may says one.

    A volume without a size is as large as its snapshot, which EC2 does not say here.
    """
    for volume in settings.volumes:
        if volume.root and volume.size:
            return volume.size
    if not settings.family.ephemeral_device:
        return settings.volumes[-1].size if settings.volumes else 0
    for volume in (*settings.volumes, *settings.family.volumes):
        if volume.device == settings.family.ephemeral_device and volume.size:
            return volume.size
    return 0


def device_resources(item: Item, settings: NodeSettings) -> Resources:
    """Return accelerators and special network interfaces by resource name, without those that are zero.

    EC2 counts 0 GPUs on g6f and gr6f, which have a part of one. So no pod that asks for a GPU gets less than one,
    unless a NodeOverlay gives these types `nvidia.com/gpu`.
    """
    devices: Resources = {}
    for gpu in item.get("GpuInfo", {}).get("Gpus", ()):
        name = _GPU_RESOURCES.get(gpu["Manufacturer"].lower())
        if name:
            devices[name] = devices.get(name, 0) + gpu["Count"]
    for accelerator in item.get("InferenceAcceleratorInfo", {}).get("Accelerators", ()):
        if accelerator["Manufacturer"].lower() == "habana":
            devices["habana.ai/gaudi"] = devices.get("habana.ai/gaudi", 0) + accelerator["Count"]
    for device in item.get("NeuronInfo", {}).get("NeuronDevices", ()):
        devices["aws.amazon.com/neuron"] = devices.get("aws.amazon.com/neuron", 0) + device["Count"]
        cores = device["Count"] * device["CoreInfo"]["Count"]
        devices["aws.amazon.com/neuroncore"] = devices.get("aws.amazon.com/neuroncore", 0) + cores
    efa = item["NetworkInfo"].get("EfaInfo", {}).get("MaximumEfaInterfaces", 0)
    if settings.lists_interfaces:
        efa = min(efa, len(settings.efa_only_interfaces))
    devices["vpc.amazonaws.com/efa"] = efa
    devices[POD_ENI] = branch_interfaces(item["InstanceType"])
    if settings.family.os == "windows":
        devices["vpc.amazonaws.com/PrivateIPv4Address"] = item["NetworkInfo"]["Ipv4AddressesPerInterface"] - 1
    return {name: count for name, count in devices.items() if count}


def capacity(item: Item, settings: NodeSettings) -> Resources:
    """Return everything that the node will report as its capacity."""
    memory = memory_bytes(item, settings)
    return {
        CPU: item["VCpuInfo"]["DefaultVCpus"] * 1000,
        MEMORY: memory,
        EPHEMERAL_STORAGE: storage_bytes(item, settings),
        PODS: max_pods(item, settings),
        **huge_pages(settings.learned_amounts.get(item["InstanceType"], {}), memory),
        **device_resources(item, settings),
    }


def kube_reserved(item: Item, settings: NodeSettings) -> Resources:
    """Return what is reserved for the kubelet and the container runtime.

    The class's own figures override key by key. RESERVED_ENIS and efa-only interfaces do not count, because nodeadm
    and bootstrap.sh reserve for the pods of all interfaces.
    """
    limited = settings.family.eni_limited_overhead
    all_interfaces = replace(settings, reserve=InstanceReserve(), efa_only_interfaces=())
    pods = eni_limited_pods(item, all_interfaces) if limited else max_pods(item, settings)
    rest = item["VCpuInfo"]["DefaultVCpus"] * 1000
    cpu = 0
    for width, share in _CPU_BANDS:
        cpu += int(min(rest, width) * share)
        rest = max(rest - width, 0)
    cpu += int(rest * _CPU_REST)
    reserved = {CPU: cpu, MEMORY: (255 + 11 * pods) * MIB, EPHEMERAL_STORAGE: GIB}
    return reserved | _amounts(settings.kubelet.get("kubeReserved"))


def eviction_threshold(total: Resources, settings: NodeSettings) -> Resources:
    """Return the memory and storage that the kubelet keeps free by evicting pods. ``total`` is the node's capacity."""
    hard = settings.kubelet.get("evictionHard") or {}
    tenth = math.ceil(total[EPHEMERAL_STORAGE] / 10)
    return {
        MEMORY: _signal(hard.get("memory.available"), MEMORY, total, 100 * MIB),
        EPHEMERAL_STORAGE: _signal(hard.get("nodefs.available"), EPHEMERAL_STORAGE, total, tenth),
    }


def overhead(item: Item, settings: NodeSettings) -> Resources:
    """Return the capacity that pods cannot use: kube-reserved plus system-reserved plus eviction thresholds.

    In addition, what nodes reported to be missing. Of ephemeral storage, that is a quarter at most: one kubelet that
    lies must not keep pods from the class.
    """
    amounts = capacity(item, settings)
    reserved = resources.add(
        kube_reserved(item, settings),
        _amounts(settings.kubelet.get("systemReserved")),
        eviction_threshold(amounts, settings),
    )
    planned = amounts[EPHEMERAL_STORAGE] - reserved[EPHEMERAL_STORAGE]
    if (reported := settings.learned_storage.get(planned)) is not None:
        reserved[EPHEMERAL_STORAGE] += planned - min(max(reported, int(planned * LEAST_LEARNED)), planned)
    figures = settings.learned_amounts.get(item["InstanceType"], {})
    return resources.add(reserved, missing(figures, resources.subtract(amounts, reserved))) if figures else reserved


def _signal(value: str | None, name: str, total: Resources, default: int) -> int:
    """Return a threshold in bytes.

    ``value`` is a quantity or a percentage of the capacity; 100% disables the signal.
    """
    if value is None:
        return default
    if not value.endswith("%"):
        return resources.to_units(name, value)
    percent = Decimal(value[:-1])
    return 0 if percent >= 100 else math.ceil(total[name] * percent / 100)


def _amounts(quantities: Mapping[str, str] | None) -> Resources:
    """Parse reserved amounts, without process IDs, which do not reduce what pods can use."""
    return {name: units for name, units in resources.parse_resources(quantities).items() if name != "pid"}
