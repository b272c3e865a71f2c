"""What the volumes of a node cost, which is all that EC2 charges for a stopped instance."""

from __future__ import annotations

from collections.abc import Mapping

from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.ec2.launch.template import block_devices
from tenon.money import HOURS_A_MONTH


def disk_price(node_class: EC2NodeClass, prices: Mapping[str, float]) -> float | None:
    """Return the dollars an hour of the volumes of a node; None if the size or price of one is not known.

    It is the price of their size. What provisioned IOPS and throughput cost beyond that is not in it.

    Args:
        node_class: the EC2NodeClass of the node.
        prices: dollars a GiB-month by volume type, such as gp3.
    """
    volumes = [device["Ebs"] for device in block_devices(node_class)]
    if not volumes:
        return None  # the image brings its own, of which the EC2NodeClass says nothing
    month = 0.0
    for volume in volumes:
        size, price = volume.get("VolumeSize"), prices.get(volume["VolumeType"])
        if size is None or price is None:
            return None
        month += size * price
    return month / HOURS_A_MONTH
