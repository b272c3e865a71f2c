"""Translates an EC2NodeClass into the settings that the capacity formulas use."""

from __future__ import annotations

from typing import Any

from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.ec2.families import family_of
from tenon.ec2.families.base import EbsVolume, volume_bytes
from tenon.ec2.types.capacity import DEFAULT_RESERVE, InstanceReserve, NodeSettings
from tenon.ec2.types.learned_storage import learned_storage


def kubelet_map(node_class: EC2NodeClass) -> dict[str, Any]:
    """Return the class's kubelet settings under their Kubernetes names, without empty ones."""
    kubelet = node_class.spec.kubelet
    if kubelet is None:
        return {}
    return {name: value for name, value in kubelet.to_dict().items() if value not in (None, {}, [])}


def settings_of(node_class: EC2NodeClass, reserve: InstanceReserve = DEFAULT_RESERVE) -> NodeSettings:
    """Return the settings of a class, without the memory, CPU, pods and huge pages that its nodes reported."""
    spec = node_class.spec
    interfaces = spec.network_interfaces
    device_indexes: dict[int, int] = {}
    for interface in interfaces:
        card = interface.network_card_index
        device_indexes[card] = max(interface.device_index, device_indexes.get(card, 0))
    return NodeSettings(
        family=family_of(node_class),
        kubelet=kubelet_map(node_class),
        volumes=tuple(
            EbsVolume(mapping.device_name or "", volume_bytes(mapping.ebs.volume_size), mapping.root_volume)
            for mapping in spec.block_device_mappings
            if mapping.ebs is not None
        ),
        raid0=spec.instance_store_policy == "RAID0",
        efa_only_interfaces=tuple(i.network_card_index for i in interfaces if i.interface_type == "efa-only"),
        lists_interfaces=bool(interfaces),
        device_indexes=device_indexes,
        needs_nitro=spec.connection_tracking is not None,
        needs_nested_virtualization=spec.cpu_options is not None
        and spec.cpu_options.nested_virtualization == "enabled",
        needs_enclaves=spec.enclave_options is not None and spec.enclave_options.enabled,
        placement_group=node_class.status.placement_group,
        reserve=reserve,
        learned_storage=learned_storage(node_class),
    )
