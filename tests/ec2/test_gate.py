"""OPS-04: EC2 calls that wait for their turn when Tenon begins to stand by are never sent."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from activities.ec2.client import Ec2
from activities.ec2.errors import EC2Error, translated
from activities.gate import Gate, StandingByError
from sandbox.ec2.server import Server

pytestmark = pytest.mark.integration

RIVAL = "Karpenter (karpenter-7d_1f) leads by the Lease kube-system/karpenter-leader-election, and Tenon stands by"
CALLS = 40


class Turns:
    """A limiter in which calls wait until the test lets them go."""

    def __init__(self) -> None:
        self.waiting = threading.Semaphore(0)
        self._go = threading.Event()

    def wait(self, **_: Any) -> None:
        self.waiting.release()
        assert self._go.wait(60)

    def release(self) -> None:
        self._go.set()


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def ec2(server: Server, gate: Gate) -> Ec2:
    return Ec2("us-west-2", server.endpoint, gate=gate)


def sent(server: Server, *actions: str) -> list[str]:
    return [call["action"] for action in actions for call in server.world.calls.listing(action)]


def launch(ec2: Ec2, token: str) -> None:
    with translated("CreateFleet"):
        ec2.ec2.create_fleet(
            ClientToken=token,
            Type="instant",
            LaunchTemplateConfigs=[
                {"LaunchTemplateSpecification": {"LaunchTemplateName": "no-template", "Version": "$Latest"}}
            ],
            TargetCapacitySpecification={"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "on-demand"},
        )


def end(ec2: Ec2, number: str) -> None:
    with translated("TerminateInstances"):
        ec2.ec2.terminate_instances(InstanceIds=[f"i-{int(number):017x}"])


def tag(ec2: Ec2, number: str) -> None:
    with translated("CreateTags"):
        ec2.ec2.create_tags(Resources=[f"i-{int(number):017x}"], Tags=[{"Key": "a", "Value": "b"}])


@pytest.mark.refuses("ec2:CreateFleet", "ec2:TerminateInstances", "ec2:CreateTags")
@pytest.mark.parametrize("call", [launch, end, tag])
def test_ops04_no_call_that_waits_in_the_limiter_is_sent_in_a_stand_by(
    ec2: Ec2, server: Server, gate: Gate, call: Callable[[Ec2, str], None]
) -> None:
    """Threads cannot be canceled: each of these calls comes to its turn while another controller leads."""
    actions = ("CreateFleet", "TerminateInstances", "CreateTags")
    turns, before = Turns(), len(sent(server, *actions))
    ec2.ec2.meta.events.register_first("request-created.ec2", turns.wait)
    with ThreadPoolExecutor(CALLS) as threads:
        calls = [threads.submit(call, ec2, str(number)) for number in range(CALLS)]
        for _ in calls:
            assert turns.waiting.acquire(timeout=60)
        gate.close(RIVAL)
        turns.release()
        for item in calls:
            with pytest.raises(StandingByError, match=r"was not sent: Karpenter .* leads") as stopped:
                item.result()
            assert isinstance(stopped.value, EC2Error)
            assert stopped.value.retryable
    assert len(sent(server, *actions)) == before
    ec2.ec2.describe_instances()
    gate.open()
    with pytest.raises(EC2Error) as refused:
        call(ec2, "0")
    assert not isinstance(refused.value, StandingByError)
    assert len(sent(server, *actions)) > before
