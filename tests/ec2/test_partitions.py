"""Regions of other partitions: Tenon finds, launches and ends instances there under the policy of `deploy/iam`.

ARNs, addresses, service names and the currency differ. A server of the sandbox's AWS serves one region, so each region
has a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from activities.ec2.client import Ec2
from activities.ec2.provider import Ec2Provider
from sandbox.ec2.authorization.identities import environment, worker_key
from sandbox.ec2.client import Ec2Admin
from sandbox.ports import free_ports
from tenon.apis.ec2nodeclass import EC2NodeClass
from tests.ec2.samples import node_claim

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
PARTITIONS = {"eu-central-1": "aws", "cn-north-1": "aws-cn", "us-gov-west-1": "aws-us-gov"}
LARGE = {"eu-central-1": 0.096, "cn-north-1": 1.013, "us-gov-west-1": 0.121}
"""The sandbox's price of m5.large: that of AWS, or in a region without a table, that of us-east-1."""


@pytest.fixture(scope="module", params=PARTITIONS)
def region(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def endpoint(region: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The sandbox's AWS in a region, with few types."""
    (port,) = free_ports(1)
    folder = str(tmp_path_factory.mktemp(region))
    command = [sys.executable, "-m", "tests.ec2.few_types", "--port", str(port), "--state", folder]
    variables = {**os.environ, "TENON_SANDBOX_REGION": region}
    with subprocess.Popen(command, env=variables, cwd=ROOT, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        try:
            assert any("The server serves EC2" in line for line in running.stderr), "it ended by itself"
            Ec2Admin(f"http://127.0.0.1:{port}").consistency(profile=0, instance=0, tags=0)
            yield f"http://127.0.0.1:{port}"
        finally:
            running.terminate()


@pytest.fixture(scope="module")
def clients(endpoint: str, region: str, describes_at_once: None) -> Ec2:
    """The worker's clients."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(worker_key("sandbox")).items():
            patch.setenv(name, value)
        return Ec2(region, endpoint)


def test_a_class_is_ready_and_its_node_is_launched_and_ended_with_the_shipped_policy(
    region: str, endpoint: str, clients: Ec2, provider: Ec2Provider, ready_class: EC2NodeClass
) -> None:
    """AWS-160..163: nothing is refused, and what was made is in the partition."""
    statuses = {condition.type: (condition.status, condition.message) for condition in ready_class.status.conditions}
    assert statuses["Ready"][0] == "True", statuses
    claim = node_claim(("karpenter.sh/capacity-type", "In", ["spot"]), name="abroad")
    instance = provider.launch(provider.prepare_launch(claim, ready_class, 1)).instance
    assert instance is not None
    assert instance.provider_id == f"aws:///{instance.zone}/{instance.id}"
    assert instance.zone.startswith(region)
    (raw,) = clients.ec2.describe_instances(InstanceIds=[instance.id])["Reservations"][0]["Instances"]
    assert raw["IamInstanceProfile"]["Arn"].startswith(f"arn:{PARTITIONS[region]}:iam::")
    assert provider.name_instance(instance.id, "abroad", "node-1")
    assert provider.terminate(instance.id) == "shutting-down"
    assert provider.delete_launch_templates(ready_class.metadata.name) > 0
    provider.delete_instance_profile(ready_class)
    assert Ec2Admin(endpoint).rights()["refused"] == []


def test_aws130_prices_are_those_of_the_region_and_in_its_currency(
    region: str, provider: Ec2Provider, ready_class: EC2NodeClass
) -> None:
    """GovCloud has no price list: its built-in table is used, and its age and what it lacks are said."""
    (large,) = [
        instance_type for instance_type in provider.instance_types(ready_class) if instance_type.name == "m5.large"
    ]
    prices = {offering.capacity_type: offering.price for offering in large.offerings}
    assert prices["on-demand"] == LARGE[region]
    assert 0 < prices["spot"] < prices["on-demand"]
    names = provider.price_warnings()
    assert any("have no on-demand price" in name for name in names) == ("gov" in region), names
    assert any("the built-in table of us-gov" in name and "days old" in name for name in names) == ("gov" in region)
    assert len(names) == 2 * ("gov" in region)


@pytest.mark.parametrize(
    ("region", "host"),
    [
        ("eu-central-1", "eu-central-1.amazonaws.com"),
        ("cn-north-1", "cn-north-1.amazonaws.com.cn"),
        ("us-gov-west-1", "us-gov-west-1.amazonaws.com"),
    ],
)
def test_each_service_is_asked_in_its_partition(region: str, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment(worker_key("sandbox")).items():
        monkeypatch.setenv(name, value)
    ec2 = Ec2(region)
    endpoint_urls = {ec2.meta.endpoint_url for ec2 in (ec2.ec2, ec2.eks, ec2.ssm, ec2.sqs, ec2.zonal_shift)}
    assert endpoint_urls == {f"https://{item}.{host}" for item in ("ec2", "eks", "ssm", "sqs", "arc-zonal-shift")}
    iam = {"cn-north-1": f"iam.{host}", "us-gov-west-1": "iam.us-gov.amazonaws.com"}.get(region, "iam.amazonaws.com")
    assert ec2.iam.meta.endpoint_url == f"https://{iam}"
