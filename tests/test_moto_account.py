"""The account of moto is empty and moto's own, whatever ran in the process before."""

from __future__ import annotations

from pathlib import Path

import boto3
import pytest
from moto.ec2.models import amis

from sandbox.ec2.client import Ec2Admin
from sandbox.ec2.images import images as read_images
from sandbox.ec2.prices import read_prices
from sandbox.ec2.server import start
from sandbox.ec2.world import World
from tests.moto_account import moto_account
from tests.sandbox.ec2.conftest import Aws, Clock, make_client

pytestmark = pytest.mark.integration


def test_an_instance_of_an_earlier_sandbox_that_is_due_to_end_changes_nothing(tmp_path: Path) -> None:
    server = start(tmp_path, world=World(read_prices()))
    clock = Clock()
    server.world.book.clock = clock
    ec2 = make_client(server.endpoint, "ec2", "us-west-2")
    earlier = Aws(server, Ec2Admin(server.endpoint), clock, ec2)
    earlier.template()
    instance_id = earlier.launch()
    clock.pass_(600.0)
    ec2.terminate_instances(InstanceIds=[instance_id])
    clock.pass_(600.0)
    server.close()
    with moto_account():
        assert boto3.client("ec2", region_name="us-west-2").describe_instances()["Reservations"] == []


def test_a_sandbox_has_its_own_images_after_a_group_of_auto_scaling(tmp_path: Path) -> None:
    """A reset of Auto Scaling ends its instances, which creates EC2's account again. moto's own list then lacks EC2."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(amis, "AMIS", amis.AMIS[:1])  # the account that is created again has one image
        with moto_account():
            ec2 = boto3.client("ec2", region_name="us-west-2")
            image = ec2.describe_images()["Images"][0]["ImageId"]
            ec2.create_launch_template(
                LaunchTemplateName="web", LaunchTemplateData={"ImageId": image, "InstanceType": "m5.large"}
            )
            boto3.client("autoscaling", region_name="us-west-2").create_auto_scaling_group(
                AutoScalingGroupName="web",
                MinSize=1,
                MaxSize=1,
                AvailabilityZones=["us-west-2a"],
                LaunchTemplate={"LaunchTemplateName": "web", "Version": "$Latest"},
            )
    server = start(tmp_path, world=World(read_prices()))
    images = make_client(server.endpoint, "ec2", "us-west-2").describe_images()["Images"]
    server.close()
    assert len(images) == len(read_images())
