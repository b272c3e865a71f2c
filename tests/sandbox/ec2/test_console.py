"""GetConsoleOutput of the sandbox answers as EC2 does, and the worker reads it."""

from __future__ import annotations

from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from activities.ec2.console import console_output
from activities.ec2.errors import EC2Error
from tests.sandbox.ec2.conftest import Aws

pytestmark = pytest.mark.integration


class Clients:
    """The clients of a worker, as far as the console needs them."""

    def __init__(self, ec2: Any) -> None:
        self.ec2 = ec2


def launched(aws: Aws, *console: str, kind: str = "m7g.large") -> str:
    instance_id = aws.launch()
    machine = aws.server.world.book.get(instance_id)
    assert machine is not None
    machine.console += console
    machine.pool = (kind, *machine.pool[1:])
    return instance_id


def read(aws: Aws, instance_id: str) -> str:
    return console_output(cast("Any", Clients(aws.ec2)), instance_id)


def test_the_latest_output_is_read(aws: Aws) -> None:
    assert read(aws, launched(aws, "one", "zwei für drei")) == "one\r\nzwei für drei\r\n"


def test_a_console_without_text_has_no_output(aws: Aws) -> None:
    instance_id = launched(aws)
    assert "Output" not in aws.ec2.get_console_output(InstanceId=instance_id, Latest=True)
    assert read(aws, instance_id) == ""


def test_a_xen_instance_shows_only_the_output_of_its_start(aws: Aws) -> None:
    instance_id = launched(aws, "booted", kind="m4.large")
    with pytest.raises(ClientError, match="UnsupportedOperation"):
        aws.ec2.get_console_output(InstanceId=instance_id, Latest=True)
    assert read(aws, instance_id) == "booted\r\n"


def test_the_end_of_a_long_output_is_kept(aws: Aws) -> None:
    result = read(aws, launched(aws, *("x" * 1000 for _ in range(100)), "last"))
    assert (len(result), result[-6:]) == (64 * 1024, "last\r\n")


def test_an_output_that_is_no_text_is_readable_all_the_same(aws: Aws) -> None:
    """The kept part may begin in the middle of a character."""
    assert read(aws, launched(aws, "x" + "ü" * 64 * 1024 + "y")).endswith("üy\r\n")


@pytest.mark.parametrize(
    ("instance_id", "code"),
    [("i-nonsense", "InvalidInstanceID.Malformed"), ("i-0123456789abcdef0", "InvalidInstanceID.NotFound")],
)
def test_an_instance_that_does_not_exist_is_an_error(aws: Aws, instance_id: str, code: str) -> None:
    with pytest.raises(EC2Error) as caught:
        read(aws, instance_id)
    assert caught.value.code == code


@pytest.mark.refuses("ec2:GetConsoleOutput")
def test_the_workers_policy_lets_it_read_the_consoles_of_its_own_instances_only(aws: Aws) -> None:
    """A console may show what does not concern the cluster."""
    foreign = launched(aws, "not yours")
    with pytest.raises(ClientError, match="not authorized to perform: ec2:GetConsoleOutput"):
        aws.worker("ec2").get_console_output(InstanceId=foreign, Latest=True)
    own = launched(aws, "yours")
    tags = {"kubernetes.io/cluster/sandbox": "owned", "karpenter.sh/nodepool": "web"}
    aws.ec2.create_tags(Resources=[own], Tags=[{"Key": key, "Value": value} for key, value in tags.items()])
    assert aws.worker("ec2").get_console_output(InstanceId=own, Latest=True)["Output"] == "yours\r\n"
