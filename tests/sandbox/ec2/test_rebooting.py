"""RebootInstances of the sandbox's EC2, as strict as EC2's."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from tests.sandbox.ec2.conftest import Aws

pytestmark = pytest.mark.integration


def boots(aws: Aws, instance_id: str) -> int:
    return aws.server.world.book.find([instance_id])[0].boots


def running(aws: Aws) -> str:
    instance_id = aws.launch()
    aws.clock.pass_(5)
    aws.server.world.book.advance()
    return instance_id


def test_a_reboot_gives_a_running_instance_another_boot_id_and_leaves_its_state(aws: Aws) -> None:
    item = running(aws)
    machine = aws.server.world.book.find([item])[0]
    before = machine.boot_id
    assert aws.ec2.reboot_instances(InstanceIds=[item])["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert aws.describe(item)["State"]["Name"] == "running"
    assert (machine.boots, machine.boot_id != before) == (1, True)


@pytest.mark.parametrize(
    ("ids", "code"),
    [
        (["i-0123456789abcdef0"], "InvalidInstanceID.NotFound"),
        (["web-1"], "InvalidInstanceID.Malformed"),
        ([], "MissingParameter"),
    ],
)
def test_an_id_that_ec2_does_not_know_is_refused(aws: Aws, ids: list[str], code: str) -> None:
    with pytest.raises(ClientError, match=code):
        aws.ec2.reboot_instances(InstanceIds=ids)


def test_one_unknown_id_reboots_none(aws: Aws) -> None:
    item = running(aws)
    with pytest.raises(ClientError, match=r"InvalidInstanceID\.NotFound"):
        aws.ec2.reboot_instances(InstanceIds=[item, "i-0123456789abcdef0"])
    assert boots(aws, item) == 0


def test_a_dry_run_reboots_nothing(aws: Aws) -> None:
    item = running(aws)
    with pytest.raises(ClientError, match="DryRunOperation"):
        aws.ec2.reboot_instances(InstanceIds=[item], DryRun=True)
    assert boots(aws, item) == 0


def test_an_instance_that_does_not_run_cannot_reboot(aws: Aws) -> None:
    item = aws.launch()
    with pytest.raises(ClientError, match="IncorrectInstanceState"):
        aws.ec2.reboot_instances(InstanceIds=[item])


@pytest.mark.refuses("ec2:RebootInstances")
def test_n15_504_a_worker_reboots_only_instances_of_its_cluster(aws: Aws) -> None:
    with pytest.raises(ClientError, match="UnauthorizedOperation"):
        aws.worker("ec2").reboot_instances(InstanceIds=[running(aws)])
