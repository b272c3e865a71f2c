"""The Node object that a kubelet on a given instance would register."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sandbox.ec2.userdata.settings import KubeletSettings, Taint
from tenon.resources import Resources, format_resources, to_units

KI, MI, GI = 2**10, 2**20, 2**30
TAKEN = (0.015, 0.065)
"""The share of the memory that firmware, hypervisor and kernel take."""
ARM_FIRMWARE = 64 * MI
UNINITIALIZED: Taint = {
    "key": "node.cloudprovider.kubernetes.io/uninitialized",
    "value": "true",
    "effect": "NoSchedule",
}
NOT_READY: Taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
BOOT_TAINTS = frozenset({UNINITIALIZED["key"], NOT_READY["key"]})
ACCELERATORS = {"NVIDIA": "nvidia.com/gpu", "AMD": "amd.com/gpu", "Habana": "habana.ai/gaudi"}


@dataclass(frozen=True)
class InstanceFacts:
    """What the kubelet and the cloud controller learn about the instance. ``disk_gib`` is the size of the volume for
    pods.
    """

    instance_id: str
    instance_type: str
    zone: str
    region: str
    architecture: str
    private_ip: str
    private_dns_name: str
    disk_gib: int = 20
    kernel: str = "6.12.0"
    boot_id: str = ""


def eni_pods(kind: Mapping[str, Any]) -> int:
    """The number of pods that the default network card has addresses for."""
    network = kind.get("NetworkInfo") or {}
    cards = network.get("NetworkCards") or []
    default = int(network.get("DefaultNetworkCardIndex") or 0)
    interfaces = next(
        (card["MaximumNetworkInterfaces"] for card in cards if card.get("NetworkCardIndex") == default),
        network.get("MaximumNetworkInterfaces", 0),
    )
    return int(interfaces * (network.get("Ipv4AddressesPerInterface", 1) - 1) + 2) if interfaces else 0


def capacity(kind: Mapping[str, Any], facts: InstanceFacts, settings: KubeletSettings) -> Resources:
    """The node's capacity, in millicores and base units."""
    cores = int(kind["VCpuInfo"]["DefaultVCpus"])
    pods = settings.max_pods if settings.max_pods is not None else eni_pods(kind)
    if settings.pods_per_core:
        pods = min(pods, settings.pods_per_core * cores)
    store = (kind.get("InstanceStorageInfo") or {}).get("TotalSizeInGB")
    disk = int(store) * 10**9 if settings.raid0 and store else facts.disk_gib * GI
    return {
        "cpu": cores * 1000,
        "memory": memory(int(kind["MemoryInfo"]["SizeInMiB"]) * MI, facts),
        "pods": pods,
        "ephemeral-storage": disk,
        **_accelerators(kind),
    }


def memory(declaration: int, facts: InstanceFacts) -> int:
    """The bytes that the kernel reports out of those that EC2 states. Firmware, hypervisor and kernel use a part that
    cannot be computed beforehand. It is random for each type and kernel, and the same on every machine.
    """
    draw = random.Random(f"{facts.instance_type}/{facts.kernel}")
    occupancy = declaration * draw.uniform(*TAKEN) + (ARM_FIRMWARE if facts.architecture == "arm64" else 0)
    return int(declaration - occupancy) // KI * KI


def _accelerators(kind: Mapping[str, Any]) -> Resources:
    resources: Resources = {}
    for gpu in (kind.get("GpuInfo") or {}).get("Gpus") or []:
        name = ACCELERATORS.get(str(gpu.get("Manufacturer")))
        if name:
            resources[name] = resources.get(name, 0) + int(gpu.get("Count") or 0)
    for device in (kind.get("NeuronInfo") or {}).get("NeuronDevices") or []:
        count = int(device.get("Count") or 0)
        resources["aws.amazon.com/neuron"] = resources.get("aws.amazon.com/neuron", 0) + count
        cores = count * int((device.get("CoreInfo") or {}).get("Count") or 0)
        resources["aws.amazon.com/neuroncore"] = resources.get("aws.amazon.com/neuroncore", 0) + cores
    return resources


def allocatable(kind: Mapping[str, Any], resources: Resources, settings: KubeletSettings) -> Resources:
    """Capacity minus what the kubelet reserves for itself, for the system, and for its eviction thresholds."""
    cores = resources["cpu"] // 1000
    survivors: Resources = {
        "cpu": int(sum(_core_share(core) for core in range(cores))),
        "memory": (255 + 11 * eni_pods(kind)) * MI,
        "ephemeral-storage": GI,
    }
    for name, quantity in settings.kube_reserved.items():
        survivors[name] = to_units(name, quantity)
    for name, quantity in settings.system_reserved.items():
        survivors[name] = survivors.get(name, 0) + to_units(name, quantity)
    thresholds = {"memory.available": "100Mi", "nodefs.available": "10%", **settings.eviction_hard}
    for signal, name in (("memory.available", "memory"), ("nodefs.available", "ephemeral-storage")):
        survivors[name] = survivors.get(name, 0) + _threshold(thresholds[signal], name, resources[name])
    return {name: max(0, amount - survivors.get(name, 0)) for name, amount in resources.items()}


def _core_share(core: int) -> float:
    """Millicores reserved from a core. ``core`` counts from 0."""
    return 60.0 if core == 0 else 10.0 if core == 1 else 5.0 if core < 4 else 2.5


def _threshold(text: str, name: str, actual_value: int) -> int:
    if text.endswith("%"):
        share = float(text[:-1])
        return 0 if share >= 100 else math.ceil(actual_value * share / 100)
    return to_units(name, text)


def node(
    kind: Mapping[str, Any], facts: InstanceFacts, settings: KubeletSettings, now: datetime, version: str
) -> dict[str, Any]:
    """The Node as first registered: not ready, and not yet initialized by the cloud controller."""
    architecture = "arm64" if facts.architecture == "arm64" else "amd64"
    resources = capacity(kind, facts, settings)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": facts.private_dns_name,
            "labels": {
                **settings.labels,
                "kubernetes.io/hostname": facts.private_dns_name,
                "kubernetes.io/arch": architecture,
                "kubernetes.io/os": "linux",
                "beta.kubernetes.io/arch": architecture,
                "beta.kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": facts.instance_type,
                "beta.kubernetes.io/instance-type": facts.instance_type,
                "topology.kubernetes.io/zone": facts.zone,
                "topology.kubernetes.io/region": facts.region,
            },
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
        "spec": {
            "providerID": provider_id(facts.zone, facts.instance_id),
            "taints": [*settings.taints, UNINITIALIZED, NOT_READY],
        },
        "status": {
            "capacity": format_resources(resources),
            "allocatable": format_resources(allocatable(kind, resources, settings)),
            "conditions": conditions(False, now),
            "addresses": [
                {"type": "InternalIP", "address": facts.private_ip},
                {"type": "InternalDNS", "address": facts.private_dns_name},
                {"type": "Hostname", "address": facts.private_dns_name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "architecture": architecture,
                "operatingSystem": "linux",
                "kubeletVersion": version,
                "kubeProxyVersion": version,
                "containerRuntimeVersion": "containerd://2.1.4",
                "kernelVersion": facts.kernel,
                "osImage": "Sandbox Linux",
                "machineID": facts.instance_id,
                "systemUUID": facts.instance_id,
                "bootID": facts.boot_id or facts.instance_id,
            },
        },
    }


def conditions(ready: bool, now: datetime) -> list[dict[str, str]]:
    """The conditions that a kubelet reports."""
    stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    times = {"lastHeartbeatTime": stamp, "lastTransitionTime": stamp}
    pressure = [
        {"type": name, "status": "False", "reason": f"KubeletHas{reason}", "message": "kubelet has enough", **times}
        for name, reason in (
            ("MemoryPressure", "SufficientMemory"),
            ("DiskPressure", "NoDiskPressure"),
            ("PIDPressure", "SufficientPID"),
        )
    ]
    reason, message = (
        ("KubeletReady", "kubelet is posting ready status")
        if ready
        else ("KubeletNotReady", "container runtime network not ready: cni plugin not initialized")
    )
    return [*pressure, {"type": "Ready", "status": str(ready), "reason": reason, "message": message, **times}]


def lost(now: datetime) -> list[dict[str, str]]:
    """The Ready condition that the node controller writes when a kubelet stops reporting."""
    stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    message = "Kubelet stopped posting node status."
    return [
        {
            "type": "Ready",
            "status": "Unknown",
            "reason": "NodeStatusUnknown",
            "message": message,
            "lastTransitionTime": stamp,
        }
    ]


def provider_id(zone: str, instance_id: str) -> str:
    """The provider ID of an EC2 instance in Kubernetes."""
    return f"aws:///{zone}/{instance_id}"


def instance_of(node_object: Mapping[str, Any]) -> str:
    """The instance ID in a Node's provider ID. Empty if the node is not an EC2 instance."""
    names = str((node_object.get("spec") or {}).get("providerID") or "")
    return names.rpartition("/")[2] if names.startswith("aws:///") else ""
