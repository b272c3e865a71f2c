"""A launch that waited for its turn is not sent if what it would buy is not wanted any more, on the sandbox's EC2."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from temporalio.testing import ActivityEnvironment

from activities.ec2 import last_check
from activities.ec2.client import Ec2
from activities.ec2.provider import Ec2Provider
from activities.kubernetes.resources import EC2NODECLASSES, NODECLAIMS
from activities.node.launch_breakers import FIRST_LAUNCHES
from activities.node.launching import Launching
from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.messages.base import ClaimRef
from tenon.messages.launch import LaunchInput
from tests.activities.node.fake_kube import stamp
from tests.activities.node.world import World
from tests.ec2.test_group_launch import SIZE, fleets, group, launched
from tests.workflows.waiting import until

if TYPE_CHECKING:
    from sandbox.ec2.server import Server

pytestmark = pytest.mark.integration


class Counted:
    """A look that counts, and refuses the looks after the first ``passes``."""

    def __init__(self, passes: int) -> None:
        self.passes = passes
        self.looks = 0

    def __call__(self) -> None:
        self.looks += 1
        if self.looks > self.passes:
            raise last_check.NotWantedError("not wanted")


def test_a_launch_that_is_not_wanted_any_more_is_not_sent(
    provider: Ec2Provider, server: Server, ready_class: EC2NodeClass
) -> None:
    requests = group(provider, ready_class, "unwanted")
    with last_check.checking(Counted(0)), pytest.raises(last_check.NotWantedError):
        provider.launch(requests[0])
    assert fleets(server) == 0
    assert all(result.instance for result in launched(provider, requests)), "nothing of the failure is remembered"


@pytest.mark.parametrize(("code", "status", "looks"), [("RequestLimitExceeded", 503, 2), ("InternalError", 500, 1)])
def test_a_launch_is_looked_at_again_only_if_ec2_has_certainly_bought_nothing(
    provider: Ec2Provider, server: Server, ready_class: EC2NodeClass, code: str, status: int, looks: int
) -> None:
    """After an error of EC2, the first sending may have bought an instance, which only the same request finds."""
    from sandbox.ec2.faults import Fault

    server.world.faults.add(Fault(action="CreateFleet", code=code, status=status, count=1))
    look = Counted(3)
    with last_check.checking(look):
        assert provider.launch(group(provider, ready_class, f"again-{looks}")[0]).instance is not None
    assert look.looks == looks


@contextmanager
def during_the_wait(clients: Ec2, happens: Callable[[], None]) -> Iterator[None]:
    """Something happens while CreateFleet waits in the rate limiter."""

    def waited(**_: Any) -> None:
        happens()

    events, name = clients.ec2.meta.events, "request-created.ec2.CreateFleet"
    events.register_last(name, waited)
    try:
        yield
    finally:
        events.unregister(name, waited)


class Members:
    """The NodeClaims of a group, and a process that launches one of them."""

    def __init__(self, provider: Ec2Provider, node_class: EC2NodeClass, batch: str, size: int = SIZE) -> None:
        self.world = World()
        self.requests = group(provider, node_class, batch, size)
        self.names = [f"{batch}-{place}" for place in range(size)]
        for place, name in enumerate(self.names):
            metadata = {
                "name": name,
                "uid": f"uid-{name}",
                "creationTimestamp": stamp(self.world.clock()),
                "finalizers": [labels.TERMINATION_FINALIZER],
                "labels": {labels.BATCH: "7", "karpenter.sh/nodepool": "web"},
                "annotations": {labels.LAUNCH_GROUP: f"{batch}/{place}/{size}"},
            }
            reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
            self.world.kube.add(NODECLAIMS, {"metadata": metadata, "spec": {"nodeClassRef": reference}, "status": {}})
        self.process = Launching(self.world.kube, self.world.recorder, provider, self.world.clock)

    def delete(self, place: int) -> None:
        """The launch has waited long, and a NodeClaim is deleted."""
        self.world.clock.instant += timedelta(seconds=40)
        metadata = self.world.kube.objects["nodeclaims", "", self.names[place]]["metadata"]
        metadata["deletionTimestamp"] = stamp(self.world.clock())

    def launch(self, place: int, *, alone: bool = False, tries: int = 1) -> Any:
        """``tries``: how often the activity was started."""
        request = self.requests[place]
        if alone:
            request = request.model_copy(update={"group": None})
        name = self.names[place]
        ref = ClaimRef(cluster="sandbox", name=name, uid=f"uid-{name}")
        activity = ActivityEnvironment()
        activity.info = replace(activity.info, attempt=tries)
        return activity.run(self.process.launch, LaunchInput(claim=ref, request=request, attempt=1))


async def test_a_group_buys_nothing_if_a_member_leaves_while_its_request_waits(
    provider: Ec2Provider, clients: Ec2, server: Server, ready_class: EC2NodeClass
) -> None:
    """The others launch alone. Other processes learn it from the claim, and their own requests are not sent either."""
    members = Members(provider, ready_class, "member-left")
    with during_the_wait(clients, lambda: members.delete(4)):
        result = await members.launch(0)
    assert (result.instance, fleets(server)) == (None, 0)
    assert result.waits is not None
    assert "launch alone" in result.waits.message
    annotations = members.world.kube.objects["nodeclaims", "", members.names[0]]["metadata"]["annotations"]
    assert annotations[labels.LAUNCH_ATTEMPT] == "2"
    elsewhere = Launching(members.world.kube, members.world.recorder, provider, members.world.clock)
    members.process = elsewhere
    assert (await members.launch(1)).instance is None
    assert fleets(server) == 0


async def test_a_group_that_may_have_bought_something_keeps_its_token_when_a_member_leaves(
    provider: Ec2Provider, clients: Ec2, server: Server, ready_class: EC2NodeClass
) -> None:
    """A request with a new token could buy a second instance for the NodeClaim."""
    members = Members(provider, ready_class, "lost-and-left")
    with during_the_wait(clients, lambda: members.delete(4)):
        result = await members.launch(0, tries=2)
    assert (result.instance, fleets(server)) == (None, 0)
    assert result.waits is not None
    assert result.waits.unsettled
    annotations = members.world.kube.objects["nodeclaims", "", members.names[0]]["metadata"]["annotations"]
    assert labels.LAUNCH_ATTEMPT not in annotations


async def test_a_group_buys_nothing_if_another_process_gave_it_up_a_moment_ago(
    provider: Ec2Provider, clients: Ec2, server: Server, ready_class: EC2NodeClass
) -> None:
    """The NodeClaim that launches alone would have two instances. A group is given up only if it is complete late."""
    members = Members(provider, ready_class, "given-up")
    members.world.clock.instant += timedelta(seconds=9)

    def gives_up() -> None:
        members.world.clock.instant += timedelta(seconds=0.1)
        metadata = members.world.kube.objects["nodeclaims", "", members.names[4]]["metadata"]
        metadata["annotations"][labels.LAUNCH_ATTEMPT] = "1"

    with during_the_wait(clients, gives_up):
        result = await members.launch(0)
    assert (result.instance, fleets(server)) == (None, 0)


async def test_nothing_is_bought_for_a_nodeclaim_that_is_deleted_while_its_request_waits(
    provider: Ec2Provider, clients: Ec2, server: Server, ready_class: EC2NodeClass
) -> None:
    members = Members(provider, ready_class, "single-left")
    with during_the_wait(clients, lambda: members.delete(0)):
        result = await members.launch(0, alone=True)
    assert (result.instance, fleets(server)) == (None, 0)
    assert result.waits is not None
    assert "deleted before its launch was sent" in result.waits.message


async def test_nothing_is_bought_for_a_nodeclaim_that_is_deleted_when_its_launch_begins(
    provider: Ec2Provider, server: Server, ready_class: EC2NodeClass
) -> None:
    members = Members(provider, ready_class, "deleted-before")
    members.delete(0)
    result = await members.launch(0, alone=True)
    assert (result.instance, fleets(server)) == (None, 0)
    assert result.waits is not None
    assert "deleted before its launch was sent" in result.waits.message


async def test_nothing_is_bought_for_a_nodeclaim_that_is_deleted_while_a_breaker_lets_it_wait(
    provider: Ec2Provider, server: Server, ready_class: EC2NodeClass
) -> None:
    """A launch waits up to ten seconds for the outcome of the launches ahead of it."""
    members = Members(provider, ready_class, "deleted-in-line")
    breakers = members.process.parts.breakers
    for ahead in range(FIRST_LAUNCHES):
        assert await breakers.admit("web", f"ahead-{ahead}", sends=True) is None
    launch = asyncio.create_task(members.launch(0, alone=True))
    await until(reads(members.world))
    members.delete(0)
    breakers.leave("ahead-0")
    result = await launch
    assert (result.instance, fleets(server)) == (None, 0)


def reads(world: World) -> Callable[[], Awaitable[bool]]:
    """Return whether a NodeClaim was read."""

    async def was_read() -> bool:
        return any(plural == "nodeclaims" for plural, _ in world.kube.gets)

    return was_read


async def test_a_launch_that_may_have_bought_something_is_repeated_for_a_nodeclaim_that_is_deleted(
    provider: Ec2Provider, clients: Ec2, server: Server, ready_class: EC2NodeClass
) -> None:
    """The first answer may be lost, and only the same request finds what it bought."""
    members = Members(provider, ready_class, "sent-before")
    members.world.kube.add(EC2NODECLASSES, ready_class.model_dump(mode="json", by_alias=True))
    with during_the_wait(clients, lambda: members.delete(0)):
        result = await members.launch(0, alone=True, tries=2)
    assert result.instance is not None
    assert fleets(server) == 1
