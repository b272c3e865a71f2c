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
from tenon.messages.launch import LaunchInput, LaunchRequest, LaunchResult, LaunchWait
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
        self.requests: list[str] = []

    def launch(self, request: LaunchRequest) -> LaunchResult:
        stored = self.world.kube.objects["nodeclaims", "", REF.name]
        stored["status"]["providerID"] = self.written
        stored["metadata"]["resourceVersion"] += "0"
        return super().launch(request)

    def instance_state(self, instance_id: str) -> str:
        return "running"

    def terminate(self, instance_id: str) -> str | None:
        self.requests.append(instance_id)
        if self.failure is not None:
            raise self.failure
        return "shutting-down"


def world() -> World:
    world, raw = World(), claim(nodeClassRef={"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"})
    raw["status"] = {}
    raw["metadata"] |= {"creationTimestamp": stamp(world.clock())}
    world.kube.add(NODECLAIMS, raw)
    world.kube.add(EC2NODECLASSES, node_class())
    return world


def launching(world: World, ec2: Seller, breakers: LaunchBreakers | None = None) -> Launching:
    return Launching(world.kube, world.recorder, cast("Any", ec2), world.clock, breakers=breakers, tries=lambda: 1)


async def test_ops04_a_provider_id_that_another_controller_wrote_stays() -> None:
    """Tenon ends its own instance at once: no NodeClaim names it, and a sweep comes only after minutes."""
    place = world()
    ec2 = Slow(place, KARPENTERS)
    before = metrics.SURPLUS_INSTANCES.labels("web")._value.get()
    with pytest.raises(AnotherInstanceError):
        await launching(place, ec2).launch(LaunchInput(claim=REF, request=REQUEST))
    assert place.claim["status"]["providerID"] == KARPENTERS
    assert "conditions" not in place.claim["status"], "nothing says that Tenon's launch is the claim's"
    assert ec2.requests == ["i-1"]
    (event,) = [message for _, _, reason, message in place.recorder.events if reason == "SurplusInstance"]
    assert "launched i-1 for this NodeClaim" in event
    assert "i-0123456789abcdef0" in event
    assert metrics.SURPLUS_INSTANCES.labels("web")._value.get() == before + 1
    again = await launching(place, ec2).launch(LaunchInput(claim=REF, request=REQUEST))
    assert again.instance is not None
    assert (again.instance.id, ec2.requests) == ("i-0123456789abcdef0", ["i-1"])


async def test_ops04_the_same_provider_id_is_no_other_instance() -> None:
    """An attempt whose answer was lost has written it already."""
    place = world()
    ec2 = Slow(place, PROVIDER_ID)
    result = await launching(place, ec2).launch(LaunchInput(claim=REF, request=REQUEST))
    assert result.instance is not None
    assert (place.status_of("Launched")[0], ec2.requests) == ("True", [])


async def test_ops04_a_surplus_instance_that_cannot_be_terminated_now_is_left_to_a_sweep() -> None:
    place = world()
    ec2 = Slow(place, KARPENTERS, CallStoppedError("TerminateInstances", "Karpenter leads"))
    with pytest.raises(AnotherInstanceError):
        await launching(place, ec2).launch(LaunchInput(claim=REF, request=REQUEST))
    (event,) = [message for _, _, reason, message in place.recorder.events if reason == "SurplusInstance"]
    assert "Karpenter leads" in event
    assert "next sweep" in event


class Refusing(Slow):
    """While CreateFleet waits for its answer, another attempt launches the claim. This one then has no instance."""

    def __init__(self, world: World, answer: LaunchResult | EC2Error) -> None:
        super().__init__(world, PROVIDER_ID)
        self.answer: LaunchResult | EC2Error | None = answer

    def launch(self, request: LaunchRequest) -> LaunchResult:
        result = super().launch(request)
        if isinstance(self.answer, EC2Error):
            raise self.answer
        return self.answer or result


@pytest.mark.parametrize(
    "answer",
    [
        LaunchResult(reason="InsufficientCapacity", message="there is none"),
        LaunchResult(waits=LaunchWait(reason="Unauthorized", message="you may not")),
        EC2Error("ConnectionError", "CreateFleet: no answer", retryable=True),
    ],
    ids=["refused for good", "refused", "no answer"],
)
async def test_a_failed_attempt_neither_deletes_nor_marks_a_claim_that_another_one_launched(
    answer: LaunchResult | EC2Error,
) -> None:
    """A worker whose heartbeats got lost goes on while another one has the next attempt."""
    place = world()
    ec2 = Refusing(place, answer)
    with pytest.raises(AnotherInstanceError):
        await launching(place, ec2).launch(LaunchInput(claim=REF, request=REQUEST))
    assert "deletionTimestamp" not in place.claim["metadata"]
    assert "conditions" not in place.claim["status"]
    assert place.recorder.events == []
    again = await launching(place, ec2).launch(LaunchInput(claim=REF, request=REQUEST))
    assert again.instance is not None
    assert again.instance.id == "i-1"


async def test_ops04_a_launch_that_a_stand_by_stops_says_nothing_about_the_nodepool() -> None:
    """EC2 was not asked: no breaker opens, and the NodeClaim does not say that its launch failed."""

    class Stopped(Seller):
        def launch(self, request: LaunchRequest) -> LaunchResult:
            raise CallStoppedError("CreateFleet", "Karpenter leads")

    place = world()
    breakers = LaunchBreakers(place.clock)
    with pytest.raises(CallStoppedError):
        await launching(place, Stopped(), breakers).launch(LaunchInput(claim=REF, request=REQUEST))
    assert place.claim["status"] == {}
    assert await breakers.admit("web", "another") is None
