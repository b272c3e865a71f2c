"""A launch group that two processes launch: EC2 refuses its request to one, and the other does not send it again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from activities.ec2.client import Ec2
from activities.ec2.provider import Ec2Provider
from activities.kubernetes.resources import EC2NODECLASSES, NODECLAIMS
from activities.node.launching import Launching
from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.messages.base import ClaimRef
from tenon.messages.launch import LaunchInput, LaunchRequest, LaunchResult, PrepareLaunchInput
from tests.activities.node.fake_kube import Clock, FakeKube, Recorder, stamp
from tests.ec2.samples import node_claim
from tests.ec2.test_group_launch import ON_DEMAND, ONE_TYPE, SIZE, bought, ids

if TYPE_CHECKING:
    from sandbox.ec2.server import Server

pytestmark = pytest.mark.integration


class Group:
    """The NodeClaims of a launch group in an API server, and the processes that launch them."""

    def __init__(self, provider: Ec2Provider, clients: Ec2, ready_class: EC2NodeClass, batch: str) -> None:
        self.provider, self.clients = provider, clients
        self.clock = Clock()
        self.clock.instant = datetime.now(UTC)
        self.kube: Any = FakeKube(self.clock)
        self.kube.add(EC2NODECLASSES, ready_class.to_dict())
        self.refs: list[ClaimRef] = []
        for place in range(SIZE):
            body = node_claim(ON_DEMAND, ONE_TYPE, name=f"{batch}-{place}").to_dict()
            body["metadata"] |= {
                "creationTimestamp": stamp(self.clock()),
                "labels": {labels.NODEPOOL: "web", labels.BATCH: batch},
                "annotations": {labels.LAUNCH_GROUP: f"{batch}/{place}/{SIZE}"},
            }
            self.refs.append(ClaimRef(cluster="sandbox", name=f"{batch}-{place}", uid=body["metadata"]["uid"]))
            self.kube.add(NODECLAIMS, body)

    def process(self) -> Launching:
        ec2 = Ec2Provider(self.clients, self.provider.cluster)
        return Launching(self.kube, Recorder(), ec2, self.clock, tries=lambda: 1)

    async def prepared(self, process: Launching, place: int, attempt: int = 1) -> LaunchRequest:
        result = await process.prepare(PrepareLaunchInput(claim=self.refs[place], attempt=attempt))
        assert result.request is not None
        return result.request

    async def launched(self, process: Launching, place: int, request: LaunchRequest, attempt: int = 1) -> LaunchResult:
        return await process.launch(LaunchInput(claim=self.refs[place], request=request, attempt=attempt))


async def test_aws030_members_that_launched_alone_get_no_second_instance_from_another_process(
    provider: Ec2Provider, clients: Ec2, server: Server, ready_class: EC2NodeClass
) -> None:
    """The process that EC2 refused the group's request dies. EC2 would accept it now: its token is not used up."""
    from sandbox.ec2.faults import Fault

    group = Group(provider, clients, ready_class, "left")
    first, second = group.process(), group.process()
    recorded = [await group.prepared(first, place) for place in range(SIZE)]
    assert all(request.group for request in recorded)
    server.world.faults.add(Fault(action="CreateFleet", code="InvalidParameterValue", status=400, count=1))
    refused = await group.launched(first, 0, recorded[0])
    assert refused.waits is not None
    first.parts.breakers.launched("web")
    alone = []
    for place in range(SIZE - 1):
        request = await group.prepared(first, place, 2)
        assert request.group is None
        alone.append(await group.launched(first, place, request, 2))
    assert all(ids(alone))

    group.clock.instant = datetime.now(UTC)
    late = await group.launched(second, SIZE - 1, recorded[-1])
    assert late.waits is not None
    assert "launch alone" in late.waits.message
    assert bought(server, "left") == set()
    last = await group.launched(second, SIZE - 1, await group.prepared(second, SIZE - 1, 2), 2)
    assert len(set(ids([*alone, last]))) == SIZE


async def test_aws030_a_group_that_nobody_left_is_bought_once_by_two_processes(
    provider: Ec2Provider, clients: Ec2, server: Server, ready_class: EC2NodeClass
) -> None:
    group = Group(provider, clients, ready_class, "shared")
    processes = group.process(), group.process()
    results = []
    for place in range(SIZE):
        request = await group.prepared(processes[place % 2], place)
        results.append(await group.launched(processes[place % 2], place, request))
    everything = bought(server, "shared")
    assert set(ids(results)) == everything
    assert len(everything) == SIZE
