"""What a simulated instance knows of itself when it boots: its image, its user data, and its Node's facts."""

from __future__ import annotations

from typing import Any

from sandbox.ec2 import nodes
from sandbox.ec2.images import KUBERNETES
from sandbox.ec2.instances import Machine
from sandbox.ec2.userdata.reader import family_of
from sandbox.ec2.userdata.settings import BootFacts, UserDataRefusedError

KUBELET_VERSION = f"v{KUBERNETES}.0-eks"
KERNELS = {
    "AL2023": "6.12.40-63.114.amzn2023",
    "AL2": "5.10.240-238.959.amzn2",
    "Bottlerocket": "6.12.37",
    "Windows": "10.0.20348.4052",
}
"""The kernel of a family's images."""


def user_data(machine: Machine) -> str | None:
    """The instance's user data. None if it has none.

    Raises:
        UserDataRefusedError: it is not text.
    """
    data = machine.instance.user_data
    try:
        return None if data is None else str(data.decode())
    except UnicodeDecodeError as error:
        raise UserDataRefusedError(f"the user data is not text: {error}") from error


def image_name(machine: Machine) -> str:
    """The name of the instance's image."""
    image = machine.instance.ec2_backend.amis.get(machine.instance.image_id)
    return str(image.name) if image is not None else ""


def boot_facts(machine: Machine, facts: nodes.InstanceFacts, kind: dict[str, Any]) -> BootFacts:
    """What the instance knows when it reads its user data."""
    return BootFacts(
        image=image_name(machine),
        instance_id=machine.id,
        instance_type=facts.instance_type,
        zone=facts.zone,
        region=facts.region,
        private_ip=facts.private_ip,
        cpus=int(kind["VCpuInfo"]["DefaultVCpus"]),
        eni_pods=nodes.eni_pods(kind),
        kubelet_version=KUBELET_VERSION,
    )


def instance_facts(machine: Machine) -> nodes.InstanceFacts:
    """The facts that the node is built from. Pods use the second volume of a Bottlerocket image, or else the root
    volume.
    """
    instance = machine.instance
    sizes = {
        name: instance.ec2_backend.volumes[device.volume_id].size for name, device in instance.get_block_device_mapping
    }
    disk = sizes.get("/dev/xvdb") or sizes.get(instance.root_device_name) or next(iter(sizes.values()), 20)
    return nodes.InstanceFacts(
        instance_id=machine.id,
        instance_type=machine.pool[0],
        zone=machine.pool[1],
        region=instance.region_name,
        architecture=instance.architecture,
        private_ip=instance.private_ip,
        private_dns_name=instance.private_dns_name,
        disk_gib=int(disk),
        kernel=KERNELS[family_of(image_name(machine))],
        boot_id=machine.boot_id,
    )
