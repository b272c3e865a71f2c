"""A NodeClaim launches with its group only when all members were written."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, cast

import pytest

from activities.ec2.errors import EC2Error
from activities.ec2.instances import LaunchOutcome
from activities.kubernetes.resources import NODECLAIMS, Resource
from activities.node.launch_groups import READ_FOR, LaunchGroups, living_instance
from activities.node.lost_instances import SHOWS_WITHIN
from tenon.apis import labels
from tenon.kube.claim_record import ClaimRecord
from tenon.messages.launch import Instance, LaunchGroup
from tests.activities.node.fake_kube import START, Clock, stamp


def member(place: int, size: int = 3) -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"web-{place}",
            "creationTimestamp": stamp(START),
            "labels": {labels.BATCH: "7"},
            "annotations": {labels.LAUNCH_GROUP: f"7-0/{place}/{size}"},
        }
    }


class Listed:
    """The NodeClaims of one batch; counts how often they are listed."""

    def __init__(self, *claims: dict[str, Any]) -> None:
        self.claims = list(claims)
        self.lists = 0

    async def list(self, resource: Resource, *, label_selector: str) -> list[dict[str, Any]]:
        assert (resource, label_selector) == (NODECLAIMS, f"{labels.BATCH}=7")
        self.lists += 1
        return list(self.claims)


async def test_members_wait_for_the_last_one_and_share_the_pass() -> None:
    kube, clock = Listed(member(0), member(1)), Clock()

    async def pause(_: float) -> None:
        if kube.lists == 2:
            kube.claims.append(member(2))

    groups = LaunchGroups(cast("Any", kube), clock, pause)
    launch_groups = await asyncio.gather(*(groups.wait_complete(ClaimRecord.of(member(place))) for place in range(3)))
    assert launch_groups == [LaunchGroup(id="7-0", ordinal=place, size=3) for place in range(3)]
    assert kube.lists == 3


async def test_a_group_that_stays_incomplete_is_none() -> None:
    """The API server refused a member, or the planner died: its claims launch on their own."""
    clock = Clock()
    assert (
        await LaunchGroups(cast("Any", Listed(member(0))), clock, clock.sleep).wait_complete(ClaimRecord.of(member(0)))
        is None
    )


async def test_a_group_that_one_member_gave_up_is_left_although_it_is_complete_a_moment_later() -> None:
    """That member launches alone, and a request for the group would buy a second instance for it."""
    kube, clock = Listed(member(0), member(1)), Clock()
    groups = LaunchGroups(cast("Any", kube), clock, clock.sleep)
    assert await groups.wait_complete(ClaimRecord.of(member(0))) is None
    kube.claims.append(member(2))
    claim = ClaimRecord.of(member(2))
    group = await groups.wait_complete(claim)
    assert group is None or await groups.is_left(claim, group)


async def test_a_claim_without_group_asks_nothing() -> None:
    kube = Listed()
    alone = member(0)
    del alone["metadata"]["annotations"][labels.LAUNCH_GROUP]
    assert await LaunchGroups(cast("Any", kube), Clock()).wait_complete(ClaimRecord.of(alone)) is None
    assert kube.lists == 0


def left(place: int) -> dict[str, Any]:
    claim = member(place)
    claim["metadata"]["annotations"][labels.LAUNCH_ATTEMPT] = "1"
    return claim


async def test_a_group_is_left_once_the_claim_of_a_member_says_that_it_launches_alone() -> None:
    """Another process knows of the refusal. The claims are listed again, because it may have been a moment ago."""
    kube, clock = Listed(member(0), member(1), member(2)), Clock()
    groups = LaunchGroups(cast("Any", kube), clock)
    claim, group = ClaimRecord.of(member(0)), LaunchGroup(id="7-0", ordinal=0, size=3)
    assert await groups.wait_complete(claim) == group
    assert not await groups.is_left(claim, group)
    assert kube.lists == 1, "it was listed a moment ago"
    kube.claims[2] = left(2)
    clock.instant += READ_FOR + timedelta(seconds=1)
    assert await groups.is_left(claim, group)
    kube.claims[2] = member(2)
    assert await groups.is_left(claim, group), "a group that was left stays so"
    assert kube.lists == 2


@pytest.mark.parametrize(("seconds", "lists"), [(1, 1), (9, 2)], ids=["early", "late"])
async def test_only_a_group_that_was_complete_late_is_read_again_for_its_request(seconds: int, lists: int) -> None:
    """Each read is of all NodeClaims of a batch, of which a large one has thousands."""
    kube, clock = Listed(member(0), member(1), member(2)), Clock()
    groups = LaunchGroups(cast("Any", kube), clock)
    claim, group = ClaimRecord.of(member(0)), LaunchGroup(id="7-0", ordinal=0, size=3)
    clock.instant += timedelta(seconds=seconds)
    assert await groups.wait_complete(claim) == group
    clock.instant += timedelta(seconds=1)
    assert not await groups.is_left(claim, group, fresh=True)
    assert kube.lists == lists


def leaving(place: int, **status: str) -> dict[str, Any]:
    claim = member(place) | {"status": status}
    claim["metadata"]["deletionTimestamp"] = stamp(START)
    return claim


@pytest.mark.parametrize(
    "removal", [[member(0), member(1)], [member(0), member(1), leaving(2)]], ids=["gone", "deleted"]
)
async def test_a_group_is_left_once_a_member_is_deleted_before_the_launch(removal: list[dict[str, Any]]) -> None:
    """Its request would buy an instance for that member. Not so if the request may have been sent before."""
    kube, clock = Listed(member(0), member(1), member(2)), Clock()
    groups = LaunchGroups(cast("Any", kube), clock)
    claim, group = ClaimRecord.of(member(0)), LaunchGroup(id="7-0", ordinal=0, size=3)
    assert await groups.wait_complete(claim) == group
    kube.claims = removal
    clock.instant += READ_FOR + timedelta(seconds=1)
    assert not await groups.is_left(claim, group, unsettled=True)
    assert await groups.is_left(claim, group)
    other_process = LaunchGroups(cast("Any", kube), clock)
    assert await other_process.is_left(claim, group)


async def test_a_group_that_was_launched_keeps_its_request_when_a_member_leaves() -> None:
    """To repeat the request buys nothing, and it finds the instances of the others."""
    launched = member(0) | {"status": {"providerID": "aws:///us-west-2a/i-1"}}
    kube = Listed(launched, member(1), leaving(2))
    groups = LaunchGroups(cast("Any", kube), Clock())
    assert not await groups.is_left(ClaimRecord.of(member(1)), LaunchGroup(id="7-0", ordinal=1, size=3))


async def test_a_group_that_was_incomplete_while_it_was_written_is_not_left() -> None:
    kube, clock = Listed(member(0)), Clock()

    async def pause(_: float) -> None:
        kube.claims = [member(0), member(1), member(2)]

    groups = LaunchGroups(cast("Any", kube), clock, pause)
    claim = ClaimRecord.of(member(0))
    group = await groups.wait_complete(claim)
    assert group is not None
    assert not await groups.is_left(claim, group)


async def test_the_members_of_a_group_that_ec2_accepted_list_nothing() -> None:
    """To repeat its request buys nothing."""
    kube = Listed(left(0))
    groups = LaunchGroups(cast("Any", kube), Clock())
    group = LaunchGroup(id="7-0", ordinal=1, size=3)
    groups.accepted(group)
    assert not await groups.is_left(ClaimRecord.of(member(1)), group)
    assert kube.lists == 0


async def test_members_that_send_at_the_same_time_share_the_list() -> None:
    kube = Listed(member(0), member(1), member(2))
    groups = LaunchGroups(cast("Any", kube), Clock())
    claim_records = [
        (ClaimRecord.of(member(place)), LaunchGroup(id="7-0", ordinal=place, size=3)) for place in range(3)
    ]
    assert await asyncio.gather(*(groups.is_left(*claim_record) for claim_record in claim_records)) == [False] * 3
    assert kube.lists == 1


INSTANCE = Instance(
    id="i-1",
    provider_id="aws:///us-west-2a/i-1",
    instance_type="m5.large",
    zone="us-west-2a",
    capacity_type="on-demand",
    image_id="ami-1",
    price=0.1,
)


class Ec2:
    """An EC2 where the instance of a group carries no claim's tag yet, and that of another member is not shown yet."""

    def find_instance(self, claim_name: str) -> Instance | None:
        return None

    def group_outcome(self, group: LaunchGroup, claim_name: str) -> LaunchOutcome:
        if (group.id, group.ordinal, claim_name) == ("7-0", 2, "web-2"):
            return LaunchOutcome(None, decided=False, hidden_since=START)
        mine = (group.id, group.ordinal, claim_name) == ("7-0", 1, "web-1")
        return LaunchOutcome(INSTANCE if mine else None, decided=mine)


async def test_a_claim_that_leaves_before_the_answer_finds_its_instance_by_its_place() -> None:
    ec2 = cast("Any", Ec2())
    assert await living_instance(ec2, "web-1", ClaimRecord.of(member(1)), START) == INSTANCE
    assert await living_instance(ec2, "web-0", ClaimRecord.of(member(0)), START) is None
    assert await living_instance(ec2, "web-1", None, START) is None


async def test_a_claim_waits_for_an_instance_that_its_group_bought_and_ec2_does_not_show_yet() -> None:
    """It would buy a second one, or leave without the first. EC2 forgets an instance that ended long ago."""
    ec2, claim = cast("Any", Ec2()), ClaimRecord.of(member(2))
    with pytest.raises(EC2Error, match="does not show") as failure:
        await living_instance(ec2, "web-2", claim, START + SHOWS_WITHIN - timedelta(seconds=1))
    assert failure.value.retryable
    assert await living_instance(ec2, "web-2", claim, START + SHOWS_WITHIN) is None
