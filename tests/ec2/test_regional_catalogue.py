"""The catalogue of a region as a file: `tenon catalog`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError
from typer.testing import CliRunner

from activities.ec2.client import Ec2
from activities.ec2.pricing import Pricing
from activities.ec2.regional_catalogue import regional_types
from cli.main import app
from cli.simulating import builtin
from tenon.apis import labels
from tenon.scheduling.model import InstanceType
from tests.ec2.samples import item
from tests.ec2.test_pricing import UNREACHABLE, Region

REGION = "eu-central-1"
DENIED = ClientError(cast("Any", {"Error": {"Code": "UnauthorizedOperation", "Message": "no"}}), "DescribeSubnets")
POOL = """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: [{key: topology.k8s.aws/zone-id, operator: In, values: [euc1-az2]}]
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: main, resources: {requests: {cpu: "1"}}}]}
"""


@pytest.fixture
def region(monkeypatch: pytest.MonkeyPatch) -> Region:
    """It offers m5.large in two zones, and g4dn.xlarge without a price. The account has subnets in one zone."""
    region = Region(REGION, "USD", 0.115, 0.0437)
    offered = [("m5.large", "a"), ("m5.large", "b"), ("g4dn.xlarge", "a")]
    region.pages |= {
        "describe_instance_types": [{"InstanceTypes": [item("m5.large")]}, {"InstanceTypes": [item("g4dn.xlarge")]}],
        "describe_instance_type_offerings": [
            {"InstanceTypeOfferings": [{"InstanceType": name, "Location": f"{REGION}{zone}"} for name, zone in offered]}
        ],
        "describe_subnets": [{"Subnets": [{"AvailabilityZone": f"{REGION}a", "AvailabilityZoneId": "euc1-az2"}]}],
    }
    monkeypatch.setattr("cli.catalog.Ec2", lambda name: {REGION: region}[name])
    return region


def test_the_types_of_a_region_have_its_zones_and_prices(region: Region) -> None:
    (m5,) = regional_types(cast("Any", region), Pricing(cast("Any", region)))
    assert m5.name == "m5.large"
    assert m5.requirements["topology.kubernetes.io/region"].values == (REGION,)
    assert sorted((o.zone, o.zone_id, o.capacity_type, o.price) for o in m5.offerings) == [
        (f"{REGION}a", "euc1-az2", "on-demand", 0.115),
        (f"{REGION}a", "euc1-az2", "spot", 0.0437),
        (f"{REGION}b", "", "on-demand", 0.115),
    ]


def test_commands_plan_with_the_file_of_a_region(region: Region, tmp_path: Path) -> None:
    written = CliRunner().invoke(app, ["catalog", REGION])
    assert (written.exit_code, written.stderr) == (0, "1 instance type\n")
    (tmp_path / "catalog.json").write_text(written.stdout)
    (tmp_path / "manifests.yaml").write_text(POOL)
    options = ("-f", str(tmp_path / "manifests.yaml"), "--catalog", str(tmp_path / "catalog.json"), "-o", "json")
    result = CliRunner().invoke(app, ["simulate", *options])
    assert result.exit_code == 0, result.output
    (claim,) = json.loads(result.stdout)["nodeClaims"]
    assert claim["offering"] == {"instanceType": "m5.large", "zone": f"{REGION}a", "capacityType": "spot"}


def test_a_region_that_cannot_be_read_is_one_sentence(region: Region) -> None:
    region.errors["describe_subnets"] = DENIED
    result = CliRunner().invoke(app, ["catalog", REGION])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"The instance types of {REGION} cannot be read: ")
    assert "ec2:DescribeSubnets" in result.stderr


def test_prices_that_are_those_of_another_region_are_a_note(region: Region) -> None:
    region.errors["get_products"] = UNREACHABLE
    result = CliRunner().invoke(app, ["catalog", REGION])
    assert result.exit_code == 0
    assert f"note: the on-demand prices of {REGION} are unknown (" in result.stderr


@pytest.mark.integration
def test_what_ec2_says_of_the_region_of_the_built_in_catalogue_is_what_that_says(clients: Ec2) -> None:
    """Read over the wire, with the rights of the worker. Spot prices of the catalogue are estimates."""
    read_types = {kind.name: kind for kind in regional_types(clients, Pricing(clients))}
    assert len(read_types) > 50
    built_in = {kind.name: kind for kind in builtin.types() if kind.name in read_types}
    assert read_types.keys() == built_in.keys()
    for name, kind in read_types.items():
        assert kind.capacity == built_in[name].capacity
        assert on_demand(kind) == on_demand(built_in[name])


def on_demand(kind: InstanceType) -> dict[str, float]:
    return {offer.zone: offer.price for offer in kind.offerings if offer.capacity_type == labels.ON_DEMAND}
