"""The labels of an instance type, read from EC2's description of it.

Each label maps to the values that a node of the type may have. An empty list means that no node of the type has the
label, so that both `Exists` and `DoesNotExist` requirements select the right types.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tenon.apis import labels
from tenon.ec2.families.base import Family
from tenon.ec2.types.capacity import Item

_NAME = re.compile(r"^(?P<category>[a-z]+)(?:-[0-9]+tb)?(?P<generation>[0-9]+).*\.")
_BASELINE = "BaselineBandwidthInGbps"
_WHOLE = re.compile(r"(?:(?P<cards>[0-9]+)x )?(?P<each>[0-9]+(?:\.[0-9]+)?) Gigabit")
"""The bandwidth of a type with several network cards, such as ``200 Gigabit`` or ``4x 100 Gigabit``."""
_ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}

Values = dict[str, list[str]]


def architectures(item: Item) -> list[str]:
    """Return the Kubernetes names of the architectures whose images the type can boot; empty if none is supported."""
    return [_ARCHITECTURES[name] for name in item["ProcessorInfo"]["SupportedArchitectures"] if name in _ARCHITECTURES]


def label_values(item: Item, region: str, family: Family) -> Values:
    """Return every well-known label of the type with its possible values, except zones and capacity types.

    Zones and capacity types come from the type's offerings.
    """
    name = item["InstanceType"]
    own = {
        **_name_labels(name),
        **_hardware(item),
        **_network(item),
        **_gpu(item),
        **_accelerator(item),
        "instance-tenancy": [labels.DEFAULT_TENANCY, labels.DEDICATED],
        "capacity-reservation-id": [],
        "capacity-reservation-type": [],
        "capacity-reservation-interruptible": [],
        "placement-group-id": [],
        "placement-group-partition": [],
    }
    return {
        labels.INSTANCE_TYPE: [name],
        labels.ARCH: architectures(item),
        labels.OS: [family.os],
        labels.REGION: [region],
        labels.WINDOWS_BUILD: _one(family.windows_build or None),
        **{f"{labels.AWS_GROUP}/{label}": values for label, values in own.items()},
    }


def _one(value: Any) -> list[str]:
    return [] if value is None else [str(value)]


def _truth(value: bool) -> list[str]:
    return ["true" if value else "false"]


def _kebab(text: str) -> str:
    return text.strip().lower().replace(" ", "-")


def _name_labels(name: str) -> Values:
    family, _, size = name.partition(".")
    match = _NAME.match(name)
    return {
        "instance-category": _one(match and match["category"]),
        "instance-generation": _one(match and match["generation"]),
        "instance-family": [family],
        "instance-size": [size],
        "instance-capability-flex": _truth("-flex" in family),
    }


def _hardware(item: Item) -> Values:
    clock = item["ProcessorInfo"].get("SustainedClockSpeedInGhz")
    ebs = item.get("EbsInfo", {})
    bandwidth = ebs.get("EbsOptimizedInfo", {}).get("MaximumBandwidthInMbps")
    storage = item.get("InstanceStorageInfo", {})
    return {
        "instance-cpu": [str(item["VCpuInfo"]["DefaultVCpus"])],
        "instance-cpu-manufacturer": _one(_kebab(item["ProcessorInfo"].get("Manufacturer", "")) or None),
        "instance-cpu-sustained-clock-speed-mhz": _one(None if clock is None else round(clock * 1000)),
        "instance-memory": [str(item["MemoryInfo"]["SizeInMiB"])],
        "instance-hypervisor": [item.get("Hypervisor", "")],
        "instance-ebs-bandwidth": _one(bandwidth if ebs.get("EbsOptimizedSupport") == "default" else None),
        "instance-local-nvme": _one(
            storage.get("TotalSizeInGB") if storage.get("NvmeSupport", "unsupported") != "unsupported" else None
        ),
        "nitro-sandbox": _truth(item.get("NitroEnclavesSupport") == "supported"),
    }


def _network(item: Item) -> Values:
    network = item["NetworkInfo"]
    gbps = _baseline_gbps(network)
    return {
        "instance-encryption-in-transit-supported": _truth(network.get("EncryptionInTransitSupported", False)),
        "instance-network-bandwidth": _one(None if gbps is None else round(gbps * 1000)),
    }


def _baseline_gbps(network: Mapping[str, Any]) -> float | None:
    """The baseline bandwidth of all network cards together; None if EC2 does not state it.

    For several cards EC2 means different things by a card's baseline: its share, as for p5.48xlarge, the whole, as for
    g6e.48xlarge, or a part of its share, as for p6-b200.48xlarge. The sentence about the type is right for all of them.
    For one card the sentence may be about bursts.
    """
    cards = [card[_BASELINE] for card in network.get("NetworkCards", ()) if _BASELINE in card]
    if not cards:
        return None
    whole_number = _WHOLE.fullmatch(network.get("NetworkPerformance", "")) if len(cards) > 1 else None
    return float(whole_number["each"]) * int(whole_number["cards"] or 1) if whole_number else float(sum(cards))


def _gpu(item: Item) -> Values:
    """Only a type with exactly one kind of GPU has these labels."""
    gpus = item.get("GpuInfo", {}).get("Gpus", ())
    gpu = gpus[0] if len(gpus) == 1 else {}
    return {
        "instance-gpu-name": _one(_kebab(gpu["Name"]) if gpu else None),
        "instance-gpu-manufacturer": _one(_kebab(gpu["Manufacturer"]) if gpu else None),
        "instance-gpu-count": _one(gpu.get("Count")),
        "instance-gpu-memory": _one(gpu.get("MemoryInfo", {}).get("SizeInMiB")),
    }


def _accelerator(item: Item) -> Values:
    """Inference accelerators, or else Neuron devices, whose manufacturer (AWS) EC2 does not name."""
    accelerators = item.get("InferenceAcceleratorInfo", {}).get("Accelerators", ())
    neuron = item.get("NeuronInfo", {}).get("NeuronDevices", ())
    name = manufacturer = count = None
    if len(accelerators) == 1:
        name, manufacturer, count = (
            _kebab(accelerators[0]["Name"]),
            _kebab(accelerators[0]["Manufacturer"]),
            accelerators[0]["Count"],
        )
    elif len(neuron) == 1:
        name, manufacturer, count = _kebab(neuron[0]["Name"]), "aws", neuron[0]["Count"]
    return {
        "instance-accelerator-name": _one(name),
        "instance-accelerator-manufacturer": _one(manufacturer),
        "instance-accelerator-count": _one(count),
    }
