"""OPS-04: a NodeClaim that another controller launched while Tenon's launch waited for EC2 keeps its instance."""

from __future__ import annotations

from typing import Any, cast

import pytest

from activities import metrics
from activities.ec2.errors import CallStoppedError, EC2Error
from activities.kubernetes.nodeclaims import AnotherInstanceError
from activities.kubernetes.resources import EC2NODECLASSES, NODECLAIMS
from activities.node.launch_breakers import LaunchBreakers
from activities.node.launching import Launching
from tenon.messages.launch import LaunchInput, LaunchRequest, LaunchResult
from tests.activities.node.fake_kube import stamp
from tests.activities.node.seller import Seller, node_class
from tests.activities.node.world import PROVIDER_ID, REF, World, claim

KARPENTERS = "aws:///us-west-2b/i-0123456789abcdef0"
REQUEST = LaunchRequest(client_token="t", capacity_type="on-demand", templates=[], tags={})


class Slow(Seller):
    """While CreateFleet waits for its answer, another controller writes a provider ID."""

    def __init__(self, world: World, written: str, failure: EC2Error | None = None) -> None:
        super().__init__()
        self.world, self.written, self.failure = world, written, failure
        self.asked: list[str] = []

    def launch(self, request: LaunchRequest) -> LaunchResult:
        stored = self.world.kube.objects["nodeclaims", "", REF.name]
        stored["status"]["providerID"] = self.written
        stored["metadata"]["resourceVersion"] += "0"
        return super().launch(request)

    def instance_state(self, instance_id: str) -> str:
        return "running"

    def terminate(self, instance_id: str) -> str | None:
        self.asked.append(instance_id)
        if self.failure is not None:
            raise self.failure
        return "shutting-down"


def world() -> World:
    found, raw = World(), claim(nodeClassRef={"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"})
    raw["status"] = {}
    raw["metadata"] |= {"creationTimestamp": stamp(found.clock())}
    found.kube.add(NODECLAIMS, raw)
    found.kube.add(EC2NODECLASSES, node_class())
    return found


def launching(given: World, ec2: Seller, breakers: LaunchBreakers | None = None) -> Launching:
    return Launching(given.kube, given.recorder, cast("Any", ec2), given.clock, breakers=breakers, tries=lambda: 1)


async def test_ops04_a_provider_id_that_another_controller_wrote_stays() -> None:
    """Tenon ends its own instance at once: no NodeClaim names it, and a sweep comes only after minutes."""
    here = world()
    ec2 = Slow(here, KARPENTERS)
    before = metrics.SURPLUS_INSTANCES.labels("web")._value.get()
    with pytest.raises(AnotherInstanceError):
        await launching(here, ec2).launch(LaunchInput(claim=REF, request=REQUEST))
    assert here.claim["status"]["providerID"] == KARPENTERS
    assert "conditions" not in here.claim["status"], "nothing says that Tenon's launch is the claim's"
    assert ec2.asked == ["i-1"]
    (told,) = [message for _, _, reason, message in here.recorder.events if reason == "SurplusInstance"]
    assert "launched i-1 for this NodeClaim" in told
    assert "i-0123456789abcdef0" in told
    assert metrics.SURPLUS_INSTANCES.labels("web")._value.get() == before + 1
    again = await launching(here, ec2).launch(LaunchInput(claim=REF, request=REQUEST))
    assert again.instance is not None
    assert (again.instance.id, ec2.asked) == ("i-0123456789abcdef0", ["i-1"])


async def test_ops04_the_same_provider_id_is_no_other_instance() -> None:
    """An attempt whose answer was lost has written it already."""
    here = world()
    ec2 = Slow(here, PROVIDER_ID)
    result = await launching(here, ec2).launch(LaunchInput(claim=REF, request=REQUEST))
    assert result.instance is not None
    assert (here.status_of("Launched")[0], ec2.asked) == ("True", [])


async def test_ops04_a_surplus_instance_that_cannot_be_terminated_now_is_left_to_a_sweep() -> None:
    here = world()
    ec2 = Slow(here, KARPENTERS, CallStoppedError("TerminateInstances", "Karpenter leads"))
    with pytest.raises(AnotherInstanceError):
        await launching(here, ec2).launch(LaunchInput(claim=REF, request=REQUEST))
    (told,) = [message for _, _, reason, message in here.recorder.events if reason == "SurplusInstance"]
    assert "Karpenter leads" in told
    assert "next sweep" in told


async def test_ops04_a_launch_that_a_stand_by_stops_says_nothing_about_the_nodepool() -> None:
    """EC2 was not asked: no breaker opens, and the NodeClaim does not say that its launch failed."""

    class Stopped(Seller):
        def launch(self, request: LaunchRequest) -> LaunchResult:
            raise CallStoppedError("CreateFleet", "Karpenter leads")

    here = world()
    breakers = LaunchBreakers(here.clock)
    with pytest.raises(CallStoppedError):
        await launching(here, Stopped(), breakers).launch(LaunchInput(claim=REF, request=REQUEST))
    assert here.claim["status"] == {}
    assert await breakers.admit("web", "another") is None
