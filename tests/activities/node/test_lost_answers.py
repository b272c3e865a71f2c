"""A launch whose answer was lost may have bought an instance, even if the next try of its activity sends nothing."""

from __future__ import annotations

from typing import Any, cast

import pytest

from activities.ec2.errors import EC2Error
from activities.kubernetes.resources import EC2NODECLASSES, NODECLAIMS
from activities.node.launch_breakers import UNANSWERED, LaunchBreakers
from activities.node.launch_failures import TRIES_IN_PLACE
from activities.node.launching import Launching
from tenon.apis import labels
from tenon.evolve import evolve
from tenon.kube.claim_record import ClaimRecord
from tenon.messages.launch import (
    Instance,
    LaunchGroup,
    LaunchInput,
    LaunchRequest,
    LaunchResult,
)
from tenon.node import machine
from tenon.node.launch_retry import ANSWER_GRACE, LAUNCH_TIMEOUT
from tenon.node.state import NodeState, Stage
from tests.activities.node.fake_kube import stamp
from tests.activities.node.seller import Seller, node_class
from tests.activities.node.world import REF, World, claim

REQUEST = LaunchRequest(client_token="t1", capacity_type="on-demand", templates=[], tags={})
GROUP = LaunchGroup(id="7-0", ordinal=0, size=2)


class Lossy(Seller):
    """Answers no launch. It does not show yet what it may have bought."""

    def __init__(self) -> None:
        super().__init__()
        self.sent_requests = 0

    def launch(self, request: LaunchRequest) -> LaunchResult:
        self.sent_requests += 1
        raise EC2Error("ConnectionError", "CreateFleet: no answer", retryable=True)

    def find_instance(self, claim_name: str) -> Instance | None:
        return None


class Launch:
    """The launch of one NodeClaim by an activity that is tried several times."""

    def __init__(self, group: LaunchGroup | None = None) -> None:
        self.world, raw = World(), claim(nodeClassRef={"group": "karpenter.k8s.aws", "kind": "EC2NodeClass"})
        raw["spec"]["nodeClassRef"]["name"] = "default"
        raw["status"] = {}
        raw["metadata"] |= {"creationTimestamp": stamp(self.world.clock())}
        if group is not None:
            raw["metadata"]["labels"][labels.BATCH] = "7"
            raw["metadata"]["annotations"][labels.LAUNCH_GROUP] = f"{group.id}/{group.ordinal}/{group.size}"
        self.world.kube.add(NODECLAIMS, raw)
        self.world.kube.add(EC2NODECLASSES, node_class())
        self.ec2, self.tries = Lossy(), 1
        self.breakers = LaunchBreakers(self.world.clock, wait_seconds=0.0)
        self.launching = Launching(
            self.world.kube,
            self.world.recorder,
            cast("Any", self.ec2),
            self.world.clock,
            breakers=self.breakers,
            tries=lambda: self.tries,
        )
        request = evolve(REQUEST, group=group)
        self.input = LaunchInput(claim=REF, request=request, attempt=1)
        self.state = NodeState(claim=REF, pool="web", stage=Stage.LAUNCHING, request=request)

    async def answer_is_lost(self) -> None:
        with pytest.raises(EC2Error):
            await self.launching.launch(self.input)
        self.tries += 1

    async def held_back(self) -> LaunchResult:
        """The result of the next attempt, which sends nothing."""
        before = self.ec2.sent_requests
        result = await self.launching.launch(self.input)
        assert self.ec2.sent_requests == before
        self.state = machine.apply(self.state, result, self.world.clock())
        return result

    @property
    def attempt(self) -> str:
        return str(self.world.claim["metadata"]["annotations"].get(labels.LAUNCH_ATTEMPT, ""))


def keeps_its_token(launch: Launch) -> None:
    """The result says that an instance may appear, so the workflow repeats the same request."""
    assert launch.state.stage is Stage.LAUNCHING
    assert launch.state.request is not None
    assert launch.state.launch_unsettled_until == launch.world.clock() + ANSWER_GRACE
    assert launch.attempt == "", "a new token could buy a second instance"


async def test_a_lost_answer_is_remembered_while_a_breaker_holds_the_launch_back() -> None:
    launch = Launch()
    await launch.answer_is_lost()
    launch.breakers.refused("web", "Unauthorized", "you may not")
    result = await launch.held_back()
    assert result.waits is not None
    assert result.waits.breaker_open
    keeps_its_token(launch)


async def test_a_claim_with_a_lost_answer_is_not_given_up_while_a_breaker_holds_it_back() -> None:
    """LIF-05: its pods would get another node, and the first one may still come."""
    launch = Launch()
    await launch.answer_is_lost()
    launch.breakers.refused("web", "Unauthorized", "you may not")
    launch.world.claim["metadata"]["creationTimestamp"] = stamp(launch.world.clock() - 2 * LAUNCH_TIMEOUT)
    await launch.held_back()
    assert "deletionTimestamp" not in launch.world.claim["metadata"]
    keeps_its_token(launch)


async def test_a_lost_answer_of_a_group_is_remembered_although_the_group_was_left() -> None:
    """Another member left, or EC2 refused the request of another process."""
    launch = Launch(GROUP)
    launch.world.kube.add(NODECLAIMS, other_member())
    await launch.answer_is_lost()
    launch.launching.parts.groups.leave(GROUP)
    result = await launch.held_back()
    assert "launch alone" in result.message
    keeps_its_token(launch)


def other_member(**metadata: Any) -> dict[str, Any]:
    body = claim()
    body["metadata"] |= {"name": "web-2", "uid": "uid-web-2", **metadata}
    body["metadata"]["labels"] = {**body["metadata"]["labels"], labels.BATCH: "7"}
    body["metadata"]["annotations"] = {labels.LAUNCH_GROUP: f"{GROUP.id}/1/{GROUP.size}"}
    body["status"] = {}
    return body


async def test_one_lost_answer_that_the_members_of_a_group_share_is_one_call_without_an_answer() -> None:
    """EC2 counts as down after several calls, and a group has up to 100 members."""
    launch = Launch()
    failures, record = launch.launching.parts.failures, ClaimRecord.of(launch.world.claim)
    error = EC2Error("ConnectionError", "CreateFleet: no answer", retryable=True)
    launch.tries = TRIES_IN_PLACE
    for _ in range(UNANSWERED + 1):
        await failures.failed(REF, record, error)
    assert launch.breakers.report().breakers == []
    for _ in range(UNANSWERED - 1):
        again = EC2Error("ConnectionError", "CreateFleet: no answer", retryable=True)
        await failures.failed(REF, record, again)
    (breaker,) = launch.breakers.report().breakers
    assert breaker.outage
