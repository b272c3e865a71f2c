"""StopInstances and StartInstances of the sandbox's EC2, as strict as EC2's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from activities.ec2.stops import StopOutcome, start_instance
from sandbox.ec2.boot import START_SHARE, BootPlan
from sandbox.ec2.market import CapacityRule
from tests.sandbox.ec2.conftest import Aws

pytestmark = pytest.mark.integration


def later(aws: Aws, seconds: float = 5) -> None:
    aws.clock.pass_(seconds)
    aws.server.world.book.advance()


def running(aws: Aws) -> str:
    instance_id = aws.launch()
    later(aws)
    return instance_id


def state(aws: Aws, instance_id: str) -> str:
    return str(aws.describe(instance_id)["State"]["Name"])


def test_an_instance_stops_and_starts_with_its_address_and_another_boot(aws: Aws) -> None:
    item = running(aws)
    machine, address = aws.server.world.book.find([item])[0], aws.describe(item)["PrivateIpAddress"]
    boot = machine.boot_id
    answer = aws.ec2.stop_instances(InstanceIds=[item])["StoppingInstances"][0]
    assert (answer["PreviousState"]["Name"], answer["CurrentState"]["Name"]) == ("running", "stopping")
    later(aws)
    assert (state(aws, item), aws.describe(item)["PrivateIpAddress"]) == ("stopped", address)
    answer = aws.ec2.start_instances(InstanceIds=[item])["StartingInstances"][0]
    assert (answer["PreviousState"]["Name"], answer["CurrentState"]["Name"]) == ("stopped", "pending")
    later(aws)
    assert (state(aws, item), aws.describe(item)["PrivateIpAddress"]) == ("running", address)
    assert machine.boot_id != boot


def test_repeated_calls_change_nothing(aws: Aws) -> None:
    item = running(aws)
    boots = aws.server.world.book.find([item])[0].boots
    aws.ec2.start_instances(InstanceIds=[item])
    assert (state(aws, item), aws.server.world.book.find([item])[0].boots) == ("running", boots)
    aws.ec2.stop_instances(InstanceIds=[item])
    later(aws)
    aws.ec2.stop_instances(InstanceIds=[item])
    assert state(aws, item) == "stopped"


def test_an_instance_that_is_stopping_cannot_start_yet(aws: Aws) -> None:
    item = running(aws)
    aws.ec2.stop_instances(InstanceIds=[item])
    with pytest.raises(ClientError, match="IncorrectInstanceState"):
        aws.ec2.start_instances(InstanceIds=[item])


def test_a_pending_instance_and_a_spot_instance_cannot_stop(aws: Aws) -> None:
    with pytest.raises(ClientError, match="IncorrectInstanceState"):
        aws.ec2.stop_instances(InstanceIds=[aws.launch()])
    spot = aws.launch(spot=True)
    later(aws)
    with pytest.raises(ClientError, match="UnsupportedOperation"):
        aws.ec2.stop_instances(InstanceIds=[spot])


def test_a_stopped_instance_has_released_its_capacity_and_needs_it_to_start(aws: Aws) -> None:
    item = running(aws)
    machine = aws.server.world.book.find([item])[0]
    aws.server.world.book.market.set_capacity(CapacityRule(*machine.pool, available=0))
    aws.ec2.stop_instances(InstanceIds=[item])
    later(aws)
    with pytest.raises(ClientError, match="InsufficientInstanceCapacity") as caught:
        aws.ec2.start_instances(InstanceIds=[item])
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500
    reply = start_instance(cast("Any", SimpleNamespace(ec2=aws.ec2)), item)
    assert reply.outcome is StopOutcome.REFUSED, "the pods of a warm node get a launch instead"
    assert state(aws, item) == "stopped"
    aws.server.world.book.market.clear_capacity()
    aws.ec2.start_instances(InstanceIds=[item])
    later(aws)
    assert state(aws, item) == "running"


def test_a_stopped_instance_is_not_billed(aws: Aws) -> None:
    item = running(aws)
    later(aws, 100)
    aws.ec2.stop_instances(InstanceIds=[item])
    later(aws, 5)

    def seconds() -> list[int]:
        lines = aws.server.world.billing.listing(aws.clock())["lines"]
        return [line["seconds"] for line in lines if line["instance"] == item]

    before = seconds()
    later(aws, 1000)
    assert seconds() == before
    aws.ec2.start_instances(InstanceIds=[item])
    later(aws, 200)
    assert len(seconds()) == 2, "the second run has a line of its own"


def test_a_stopped_instance_can_be_terminated(aws: Aws) -> None:
    item = running(aws)
    aws.ec2.stop_instances(InstanceIds=[item])
    later(aws)
    aws.ec2.terminate_instances(InstanceIds=[item])
    later(aws)
    assert state(aws, item) == "terminated"


def test_the_boot_after_a_stop_takes_a_fifth_of_the_first() -> None:
    plan = BootPlan(default_delay=10.0)
    assert not plan.due("m7g.large", 100.0, 109.9)
    assert not plan.due("m7g.large", 100.0, 101.9, again=True)
    assert plan.due("m7g.large", 100.0, 100.0 + 10.0 * START_SHARE, again=True)


@pytest.mark.refuses("ec2:StopInstances", "ec2:StartInstances")
def test_a_worker_stops_and_starts_only_instances_of_its_cluster(aws: Aws) -> None:
    item = running(aws)
    with pytest.raises(ClientError, match="UnauthorizedOperation"):
        aws.worker("ec2").stop_instances(InstanceIds=[item])
    with pytest.raises(ClientError, match="UnauthorizedOperation"):
        aws.worker("ec2").start_instances(InstanceIds=[item])
