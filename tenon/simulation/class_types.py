"""Applies an EC2NodeClass to the instance types of a catalogue, with the worker's own formulas.

A catalogue states each type as nodes of an AL2023 class without further settings have it. Disks, instance store, the
kubelet's limits and reserved amounts, Windows and placement groups of a class change these figures. A type gets what
`tenon.ec2` computes for the class wherever that differs from what it computes for the plain class. Other figures stay
as the catalogue states them, because a user's catalogue may have measured ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.expressions import ExpressionError
from tenon.ec2.types.capacity import Item, NodeSettings
from tenon.ec2.types.instance_types import Description, described, requirement_of, supported
from tenon.ec2.types.learned_amounts import learned_amounts
from tenon.ec2.types.learned_memory import learned_memory
from tenon.kube.requirements import Requirements
from tenon.resources import CPU, MEMORY, PODS, Resources
from tenon.scheduling.model import InstanceType

PLAIN = NodeSettings()
MIB = 2**20
_ARCHITECTURES = {"amd64": "x86_64", "arm64": "arm64"}
_AT_MOST = 10**6


class ClassTypes:
    """The instance types of a catalogue as each class has them."""

    def __init__(
        self,
        plain: Sequence[InstanceType],
        descriptions: Callable[[], Mapping[str, Item]],
        settings_of: Callable[[EC2NodeClass], NodeSettings],
    ) -> None:
        """``descriptions`` are EC2's, of the types that are known. They are read only for a class that needs them."""
        self._plain = plain
        self._descriptions = descriptions
        self._settings_of = settings_of
        self._types: dict[str, Sequence[InstanceType]] = {}

    def of(self, node_class: EC2NodeClass) -> Sequence[InstanceType]:
        """Return the types that the class allows. Classes with equal settings share one list."""
        settings = replace(
            self._settings_of(node_class),
            learned_memory=learned_memory(node_class),
            learned_amounts=learned_amounts(node_class),
        )
        if settings == PLAIN:
            return self._plain
        key = repr(settings)
        if key not in self._types:
            descriptions = self._descriptions()
            of_class = (_in_class(kind, descriptions.get(kind.name), settings) for kind in self._plain)
            self._types[key] = [kind for kind in of_class if kind is not None]
        return self._types[key]


def _in_class(kind: InstanceType, item: Item | None, settings: NodeSettings) -> InstanceType | None:
    """Return the type as nodes of the class have it; None if the class cannot use it."""
    region = next(iter(kind.requirements.get(labels.REGION).values), "")
    plain = described(item, region, PLAIN) if item is not None else None
    if item is None or plain is None or plain.capacity.get(CPU) != kind.capacity.get(CPU):
        item = described_by(kind)  # a type of this name that is not EC2's
        plain = described(item, region, PLAIN)
    if not supported(item, settings):
        return None
    try:
        own = described(item, region, settings)
    except ExpressionError:
        return None  # as the worker does: the condition of the class reports it
    return replace(
        kind,
        requirements=_requirements(kind.requirements, plain, own),
        capacity=_changed(kind.capacity, plain.capacity, own.capacity),
        overhead=_added(kind.overhead, plain.overhead, own.overhead),
    )


def _requirements(stated_requirements: Requirements, plain: Description, own: Description) -> Requirements:
    changed = {key: values for key, values in own.values.items() if values != plain.values.get(key)}
    if not changed:
        return stated_requirements
    kept_requirements = [requirement for key, requirement in stated_requirements.items() if key not in changed]
    return Requirements.of(*kept_requirements, *(requirement_of(key, values) for key, values in changed.items()))


def _changed(stated_resources: Resources, plain: Resources, own: Resources) -> Resources:
    """The class's figure wherever the class changes one."""
    names = {name for name in plain.keys() | own.keys() if plain.get(name) != own.get(name)}
    kept_resources = {name: amount for name, amount in stated_resources.items() if name not in names}
    return kept_resources | {name: own[name] for name in names if name in own}


def _added(stated_resources: Resources, plain: Resources, own: Resources) -> Resources:
    """What the class reserves in addition, which may be less than nothing."""
    resources = dict(stated_resources)
    for name in own:
        if more := own[name] - plain.get(name, 0):
            resources[name] = max(0, resources.get(name, 0) + more)
    return resources


def described_by(kind: InstanceType) -> Item:
    """Return a description from which the formulas give a catalogue's figures, as far as it states them.

    A catalogue does not say what EC2 supports on a type, so that everything is.
    """

    def label(name: str) -> str:
        requirement = kind.requirements.get(f"{labels.AWS_GROUP}/{name}")
        return "" if requirement.complement else next(iter(sorted(requirement.values)), "")

    def number(name: str, otherwise: float) -> int:
        text = label(name)
        return int(text) if text.isdecimal() else int(otherwise)

    pods = kind.capacity.get(PODS, 0)
    arch = kind.requirements.get(labels.ARCH)
    descriptions = [of_ec2 for name, of_ec2 in _ARCHITECTURES.items() if arch.has(name)]
    efa = kind.capacity.get("vpc.amazonaws.com/efa", 0)
    item: dict[str, Any] = {
        "InstanceType": kind.name,
        "SupportedVirtualizationTypes": ["hvm"],
        "Hypervisor": "nitro",
        "ProcessorInfo": {
            "SupportedArchitectures": descriptions or ["x86_64"],
            "SupportedFeatures": ["nested-virtualization"],
        },
        "NitroEnclavesSupport": "supported" if label("nitro-sandbox") == "true" else "unsupported",
        "VCpuInfo": {"DefaultVCpus": number("instance-cpu", kind.capacity.get(CPU, 0) / 1000)},
        "MemoryInfo": {"SizeInMiB": number("instance-memory", kind.capacity.get(MEMORY, 0) / MIB)},
        "NetworkInfo": {
            "MaximumNetworkInterfaces": 1,
            "MaximumNetworkCards": _AT_MOST,
            "Ipv4AddressesPerInterface": max(0, pods - 1),
            "EfaInfo": {"MaximumEfaInterfaces": efa},
        },
    }
    if disk := number("instance-local-nvme", 0):
        item["InstanceStorageInfo"] = {"TotalSizeInGB": disk, "NvmeSupport": "supported"}
    return item
