"""What becomes of a reboot that EC2 is asked for: accepted, refused for now, rejected for good, or nobody knows."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from activities.ec2.client import Ec2
from activities.ec2.cluster import describe_cluster
from activities.ec2.provider import Ec2Provider
from activities.gate import Gate
from cli.diagnosis.aws import check_aws
from cli.diagnosis.finding import DoctorFinding, FindingState
from sandbox.ec2.authorization.identities import environment, worker_key
from sandbox.ec2.faults import Fault
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.messages.reboot import RebootOutcome
from tests.ec2.instances import bought
from tests.workflows.waiting import until
from worker.settings import Settings

if TYPE_CHECKING:
    from sandbox.ec2.server import Server

pytestmark = pytest.mark.integration
ZONES = ("usw2-az1", "us-west-2a")


@pytest.fixture(scope="module")
def instance(provider: Ec2Provider, ready_class: EC2NodeClass, server: Server) -> str:
    instance_id = bought(provider, ready_class, "reboots-1")

    async def runs() -> bool:
        server.world.book.advance()
        return server.world.book.find([instance_id])[0].state == "running"

    asyncio.run(until(runs))
    return instance_id


def outcome(provider: Ec2Provider, instance_id: str) -> RebootOutcome:
    return provider.reboot(instance_id, ZONES).outcome


def calls(server: Server) -> int:
    return len(server.world.calls.listing("RebootInstances"))


def test_n15_171_an_instance_of_the_cluster_reboots(provider: Ec2Provider, server: Server, instance: str) -> None:
    before = server.world.book.find([instance])[0].boots
    assert outcome(provider, instance) is RebootOutcome.ACCEPTED
    assert server.world.book.find([instance])[0].boots == before + 1


@pytest.mark.refuses("ec2:RebootInstances")
def test_n15_171_an_unknown_instance_and_a_missing_right_are_final(provider: Ec2Provider) -> None:
    assert outcome(provider, "i-0123456789abcdef0") is RebootOutcome.REJECTED


@pytest.mark.parametrize(
    ("code", "status", "expected"),
    [
        ("InvalidInstanceID.NotFound", 400, RebootOutcome.REJECTED),
        ("UnauthorizedOperation", 403, RebootOutcome.REJECTED),
        ("RequestLimitExceeded", 503, RebootOutcome.REFUSED),
        ("IncorrectInstanceState", 400, RebootOutcome.REFUSED),
        ("InternalError", 500, RebootOutcome.UNKNOWN),
    ],
)
def test_n15_171_errors_are_final_repeated_or_leave_open_what_happened(
    provider: Ec2Provider, server: Server, instance: str, code: str, status: int, expected: RebootOutcome
) -> None:
    """The client sends the call once, whatever the answer: EC2 has no token that would make a repetition harmless."""
    server.world.faults.add(Fault(action="RebootInstances", code=code, status=status, count=None))
    requests = calls(server)
    assert outcome(provider, instance) is expected
    assert calls(server) == requests + 1


def test_n15_171_nothing_reboots_in_a_zone_with_a_shift(clients: Ec2, server: Server, instance: str) -> None:
    shifting = Ec2Provider(clients, describe_cluster(clients, "sandbox"), zonal_shift=True)
    server.world.zonal_shifts.by_hand.add(ZONES[0])
    requests = calls(server)
    try:
        reply = shifting.reboot(instance, ZONES)
    finally:
        server.world.zonal_shifts.clear()
    assert (reply.outcome, reply.message) == (RebootOutcome.REFUSED, "ARC shifts the cluster away from zone usw2-az1")
    assert calls(server) == requests


def test_a_worker_that_stands_by_reboots_nothing(server: Server, instance: str, clients: Ec2) -> None:
    gate = Gate()
    gate.close("Karpenter leads")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(worker_key("sandbox")).items():
            patch.setenv(name, value)
        hold = Ec2Provider(Ec2("us-west-2", server.endpoint, gate=gate), describe_cluster(clients, "sandbox"))
    requests = calls(server)
    assert outcome(hold, instance) is RebootOutcome.REFUSED
    assert calls(server) == requests


@pytest.mark.parametrize(
    ("check", "call"), [("reboots", "RebootInstances"), ("stops", "StopInstances"), ("starts", "StartInstances")]
)
def test_n15_504_doctor_tries_out_what_the_worker_does_to_instances_with_dry_runs(
    clients: Ec2, server: Server, instance: str, check: str, call: str
) -> None:
    def found() -> DoctorFinding:
        findings = check_aws(clients, Settings(cluster_name="sandbox"), [], lambda: datetime.now(UTC))
        (finding,) = (item for item in findings if item.check == check)
        return finding

    boots = server.world.book.find([instance])[0].boots
    assert found().state is FindingState.OK
    server.world.faults.add(Fault(action=call, code="UnauthorizedOperation", status=403))
    assert found().state is FindingState.WARNING
    machine = server.world.book.find([instance])[0]
    assert (machine.boots, machine.state) == (boots, "running")
