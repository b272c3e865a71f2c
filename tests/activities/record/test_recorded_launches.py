"""What the record says of launches: what EC2 launched, what it refused, and nothing of what it was not asked for."""

from __future__ import annotations

from typing import Any, cast

import pytest

from activities.ec2.errors import EC2Error, NodeClassNotReadyError, ThrottledError
from activities.kubernetes.resources import EC2NODECLASSES, NODECLAIMS
from activities.node.launching import Launching
from tenon.apis import labels
from tenon.evolve import evolve
from tenon.messages.explanation import Explanation
from tenon.messages.launch import (
    FleetOverride,
    FleetTemplate,
    Instance,
    LaunchInput,
    LaunchRequest,
    LaunchResult,
    LaunchWait,
    PrepareLaunchInput,
)
from tenon.messages.offerings import OfferingRef
from tenon.record.entries import LaunchEntry, RefusalEntry
from tests.activities.node.seller import Seller, node_class
from tests.activities.node.world import REF, World, claim
from tests.activities.record.kept import KeptRecord

OVERRIDES = [
    FleetOverride(instance_type=name, zone="us-west-2a", subnet_id="subnet-1", price=price)
    for name, price in (("m5.large", 0.096), ("m5.xlarge", 0.192))
]
REQUEST = LaunchRequest(
    client_token="t",
    capacity_type="on-demand",
    templates=[FleetTemplate(name="t", image_id="ami-1", overrides=OVERRIDES)],
    tags={},
)
LACKING = OfferingRef(capacity_type="on-demand", instance_type="m5.large", zone="us-west-2a")


class Answering(Seller):
    """Answers launches, or their preparation, as a test says."""

    def __init__(self, launch: LaunchResult | Exception | None = None, prepare: Exception | None = None) -> None:
        super().__init__()
        self.answer = launch
        self.prepare = prepare

    def prepare_launch(self, *value: Any) -> LaunchRequest:
        if self.prepare is not None:
            raise self.prepare
        return super().prepare_launch(*value)

    def launch(self, request: LaunchRequest) -> LaunchResult:
        if isinstance(self.answer, Exception):
            raise self.answer
        result = super().launch(request)
        return result if self.answer is None else evolve(result, unavailable=self.answer.unavailable)


class Refusing(Answering):
    """Sells nothing, and has result nothing."""

    def find_instance(self, claim_name: str) -> Instance | None:
        return None

    def launch(self, request: LaunchRequest) -> LaunchResult:
        assert isinstance(self.answer, LaunchResult)
        return self.answer


def waiting(ec2: Seller, tries: int = 1, why: str = "") -> tuple[KeptRecord, Launching]:
    """A NodeClaim without an instance, and the activities that launch one."""
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    world, raw, record = World(), claim(nodeClassRef=reference), KeptRecord()
    raw["status"] = {}
    raw["metadata"]["annotations"][labels.EXPLANATION] = Explanation(pods=why).annotation()
    world.kube.add(NODECLAIMS, raw)
    world.kube.add(EC2NODECLASSES, node_class())
    return record, Launching(
        world.kube, world.recorder, cast("Any", ec2), world.clock, tries=lambda: tries, record=record
    )


def refusal(record: KeptRecord) -> RefusalEntry:
    (entry,) = record.entries
    assert isinstance(entry, RefusalEntry)
    return entry


async def test_a_launch_is_recorded_with_its_instance_its_price_and_why_it_was_bought() -> None:
    record, launching = waiting(Answering(), why="1 pod: default/a")
    await launching.launch(LaunchInput(claim=REF, request=REQUEST, attempt=2))
    (entry,) = record.entries
    assert isinstance(entry, LaunchEntry)
    assert (entry.cluster, entry.facts.claim, entry.facts.pool) == (REF.cluster, REF.name, "web")
    assert (entry.facts.instance, entry.facts.instance_type, entry.facts.capacity_type) == (
        "i-1",
        "m5.large",
        "on-demand",
    )
    assert entry.facts.price > 0
    assert (entry.offered, entry.attempt, entry.why) == (2, 2, Explanation(pods="1 pod: default/a"))


async def test_a_repeated_launch_is_recorded_under_the_same_id() -> None:
    """The activity is tried again after its answer was lost."""
    record, launching = waiting(Answering())
    await launching.launch(LaunchInput(claim=REF, request=REQUEST))
    again, later = waiting(Answering())
    await later.prepare(PrepareLaunchInput(claim=REF, attempt=2))
    assert [entry.id for entry in again.entries] == [entry.id for entry in record.entries]


async def test_what_ec2_refused_before_it_sold_something_else_is_recorded_too() -> None:
    record, launching = waiting(Answering(launch=LaunchResult(unavailable=[LACKING])))
    await launching.launch(LaunchInput(claim=REF, request=REQUEST))
    refused, launched = record.entries
    assert isinstance(refused, RefusalEntry)
    assert (refused.code, refused.offerings, refused.offering_count) == (
        "InsufficientCapacity",
        ["on-demand m5.large us-west-2a"],
        1,
    )
    assert isinstance(launched, LaunchEntry)


async def test_a_launch_without_capacity_is_one_refusal_with_all_offerings() -> None:
    answer = LaunchResult(unavailable=[LACKING], message="no capacity for m5.large")
    record, launching = waiting(Refusing(launch=answer))
    await launching.launch(LaunchInput(claim=REF, request=REQUEST))
    assert (refusal(record).code, refusal(record).message) == ("InsufficientCapacity", "no capacity for m5.large")
    assert refusal(record).offering_count == 1


async def test_a_launch_that_the_account_may_not_do_is_recorded_with_ec2s_words() -> None:
    wait = LaunchWait(reason="Unauthorized", message="CreateFleet: you may not")
    record, launching = waiting(Refusing(launch=LaunchResult(reason=wait.reason, message=wait.message, waits=wait)))
    await launching.launch(LaunchInput(claim=REF, request=REQUEST))
    assert (refusal(record).code, refusal(record).message) == ("Unauthorized", "CreateFleet: you may not")


@pytest.mark.parametrize("tries", [1, 3], ids=["it is tried again at once", "it gives up"])
async def test_throttling_is_recorded_once_the_launch_gives_up(tries: int) -> None:
    throttled = ThrottledError("RequestLimitExceeded", "slow down")
    record, launching = waiting(Answering(launch=throttled), tries=tries)
    if tries == 1:
        with pytest.raises(EC2Error):
            await launching.launch(LaunchInput(claim=REF, request=REQUEST))
        assert not record.entries
    else:
        await launching.launch(LaunchInput(claim=REF, request=REQUEST))
        assert "RequestLimitExceeded" in refusal(record).message


async def test_a_refusal_by_the_ec2nodeclass_is_recorded() -> None:
    record, launching = waiting(Refusing(prepare=NodeClassNotReadyError("EC2NodeClass default has no subnets")))
    await launching.prepare(PrepareLaunchInput(claim=REF, attempt=3))
    assert (refusal(record).code, refusal(record).message, refusal(record).attempt) == (
        "NodeClassNotReady",
        "EC2NodeClass default has no subnets",
        3,
    )


async def test_a_launch_that_waits_for_a_breaker_is_not_a_refusal() -> None:
    """EC2 is not asked, so it refuses nothing: the refusal that opened the breaker has its own entry."""
    wait = LaunchWait(reason="Unauthorized", message="CreateFleet: you may not")
    record, launching = waiting(Refusing(launch=LaunchResult(reason=wait.reason, message=wait.message, waits=wait)))
    await launching.launch(LaunchInput(claim=REF, request=REQUEST))
    await launching.prepare(PrepareLaunchInput(claim=REF))
    assert len(record.entries) == 1
