"""A sandbox EC2 in a thread, reached over real HTTP, with a clock that tests move."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from sandbox.ec2.authorization.identities import ADMINISTRATOR_KEY, SECRET, worker_key
from sandbox.ec2.client import Ec2Admin
from sandbox.ec2.consistency import USUAL
from sandbox.ec2.prices import read_prices
from sandbox.ec2.responses import SandboxEC2
from sandbox.ec2.server import Server, start
from sandbox.ec2.world import World

TEMPLATE = "karpenter.k8s.aws/1234"


class Clock:
    """Seconds that pass only when a test says so."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now

    def pass_(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class Aws:
    """Clients of one sandbox, and shortcuts for what most tests do."""

    server: Server
    admin: Ec2Admin
    clock: Clock
    ec2: Any

    def client(self, service: str, region: str = "us-west-2") -> Any:
        return make_client(self.server.endpoint, service, region)

    def worker(self, service: str, cluster: str = "sandbox") -> Any:
        """The client of a cluster's worker."""
        return make_client(self.server.endpoint, service, "us-west-2", worker_key(cluster))

    @property
    def subnets(self) -> dict[str, str]:
        describe_subnets = self.ec2.describe_subnets(
            Filters=[{"Name": "tag:karpenter.sh/discovery", "Values": ["sandbox"]}]
        )
        return {subnet["AvailabilityZone"]: subnet["SubnetId"] for subnet in describe_subnets["Subnets"]}

    @property
    def group(self) -> str:
        describe_security_groups = self.ec2.describe_security_groups(
            Filters=[{"Name": "tag:karpenter.sh/discovery", "Values": ["sandbox"]}]
        )
        return str(describe_security_groups["SecurityGroups"][0]["GroupId"])

    def image(self, architecture: str = "arm64") -> str:
        path = f"/aws/service/eks/optimized-ami/1.37/amazon-linux-2023/{architecture}/standard/recommended/image_id"
        return str(self.client("ssm").get_parameter(Name=path)["Parameter"]["Value"])

    def template(self, name: str = TEMPLATE, user_data: str = "hello", **data: Any) -> None:
        content = {
            "ImageId": self.image(),
            "UserData": base64.b64encode(user_data.encode()).decode(),
            "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": [self.group]}],
            **data,
        }
        self.ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=content)

    def fleet(self, *overrides: dict[str, Any], count: int = 1, spot: bool = False, **more: Any) -> Any:
        """One CreateFleet call; an override without a subnet gets the one of zone a."""
        zone_a = self.subnets["us-west-2a"]
        rows = [{"SubnetId": zone_a, **override} for override in overrides or ({"InstanceType": "m7g.large"},)]
        specification = {"LaunchTemplateName": TEMPLATE, "Version": "$Latest"}
        request: dict[str, Any] = {
            "Type": "instant",
            "LaunchTemplateConfigs": [{"LaunchTemplateSpecification": specification, "Overrides": rows}],
            "TargetCapacitySpecification": {
                "TotalTargetCapacity": count,
                "DefaultTargetCapacityType": "spot" if spot else "on-demand",
            },
        }
        return self.ec2.create_fleet(**{**request, **more})

    def launch(self, **more: Any) -> str:
        """Launches one m7g.large and returns its id."""
        return str(self.fleet(**more)["Instances"][0]["InstanceIds"][0])

    def describe(self, instance_id: str) -> Any:
        return self.ec2.describe_instances(InstanceIds=[instance_id])["Reservations"][0]["Instances"][0]


def make_client(endpoint: str, service: str, region: str, access_key: str = ADMINISTRATOR_KEY) -> Any:
    by_name: Any = boto3.client  # its types know each service by its literal name only
    return by_name(
        service,
        endpoint_url=endpoint,
        region_name=region,
        aws_access_key_id=access_key,
        aws_secret_access_key=SECRET,
        config=Config(retries={"total_max_attempts": 1}),
    )


@pytest.fixture(scope="session")
def ec2_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Any]]:
    world = World(read_prices(), delays=USUAL)
    server = start(Path(tmp_path_factory.mktemp("ec2")), world=world)
    yield server, make_client(server.endpoint, "ec2", "us-west-2")
    server.close()


@pytest.fixture
def aws(ec2_server: tuple[Server, Any]) -> Aws:
    server, ec2 = ec2_server
    SandboxEC2.world = server.world  # a process has one, and the server of another file may have replaced it
    admin = Ec2Admin(server.endpoint)
    admin.reset()
    admin.consistency()  # the clock stands still until a test moves it
    clock = Clock()
    server.world.book.clock = clock
    aws = Aws(server, admin, clock, ec2)
    aws.template()
    return aws
