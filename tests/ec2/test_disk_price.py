"""What the disks of a stopped node cost."""

from __future__ import annotations

from typing import Any

import pytest

from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.ec2.launch.disk_price import disk_price
from tests.tenon.apis.case import EC2NODECLASS

PRICES = {"gp3": 0.08, "io1": 0.125}


def node_class(*volumes: dict[str, Any], **spec: Any) -> EC2NodeClass:
    mappings = [{"deviceName": f"/dev/xvd{number}", "ebs": ebs} for number, ebs in enumerate(volumes)]
    body = {**EC2NODECLASS, "metadata": {"name": "c"}}
    body["spec"] = {**body["spec"], **({"blockDeviceMappings": mappings} if mappings else {}), **spec}
    return EC2NodeClass.model_validate(body)


@pytest.mark.parametrize(
    ("volumes", "month"),
    [
        ([{"volumeSize": "100Gi", "volumeType": "gp3"}], 8.0),
        ([{"volumeSize": "100Gi"}], 8.0),
        ([{"volumeSize": "8Gi", "volumeType": "io1", "iops": 100}, {"volumeSize": "100Gi"}], 9.0),
    ],
)
def test_each_volume_costs_its_size(volumes: list[dict[str, Any]], month: float) -> None:
    """IOPS that somebody provisions are not in it."""
    assert disk_price(node_class(*volumes), PRICES) == pytest.approx(month / 730)


def test_without_volumes_of_its_own_a_node_has_those_of_its_family() -> None:
    assert disk_price(node_class(amiSelectorTerms=[{"alias": "al2023@latest"}]), PRICES) == pytest.approx(1.6 / 730)


def test_a_size_or_price_that_is_not_known_makes_the_whole_price_unknown() -> None:
    of_snapshot = node_class({"snapshotID": "snap-1"}, {"volumeSize": "1Gi"})
    assert disk_price(of_snapshot, PRICES) is None
    assert disk_price(node_class({"volumeSize": "1Gi", "volumeType": "st1"}), PRICES) is None
    custom = node_class(amiFamily="Custom", amiSelectorTerms=[{"id": "ami-1"}], userData="x")
    assert disk_price(custom, PRICES) is None, "its image brings volumes of its own"
