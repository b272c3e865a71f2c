"""Launches that EC2 or the EC2NodeClass refuses: which claims stay, what they say, and when they are given up."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import pytest
from prometheus_client import REGISTRY

from activities.ec2.errors import (
    EC2Error,
    InsufficientCapacityError,
    NodeClassNotReadyError,
    NodeClassReadinessUnknownError,
    ThrottledError,
)
from activities.kubernetes.resources import EC2NODECLASSES, NODECLAIMS
from activities.node.launch_breakers import LaunchBreakers
from activities.node.launch_failures import TRIES_IN_PLACE
from activities.node.launch_preparation import RESUMED_AFTER
from activities.node.launching import Launching
from tenon.apis import labels
from tenon.apis.reasons import Reason
from tenon.ec2.launch.filters import NoImageError
from tenon.ec2.refusals.class_faults import ClassFault
from tenon.evolve import evolve
from tenon.kube.offerings import OfferingKey
from tenon.messages.base import ActivityName
from tenon.messages.launch import (
    FleetOverride,
    FleetTemplate,
    Instance,
    LaunchGroup,
    LaunchInput,
    LaunchRequest,
    LaunchResult,
    LaunchWait,
    PrepareLaunchInput,
)
from tenon.messages.offerings import OfferingRef
from tenon.node import machine
from tenon.node.launch_retry import LAUNCH_TIMEOUT
from tenon.node.state import NodeState
from tenon.node.steps import DeadlinePassed, Run, Wait
from tests.activities.node.fake_kube import stamp
from tests.activities.node.seller import Seller, node_class
from tests.activities.node.world import REF, World, claim

REQUEST = LaunchRequest(client_token="t", capacity_type="on-demand", templates=[], tags={})
UNAUTHORIZED = LaunchWait(reason="Unauthorized", message="CreateFleet: you may not", unsettled=True)


class Refuser(Seller):
    """Refuses, at the preparation or at the launch."""

    def __init__(self, *, prepare: Exception | None = None, launch: LaunchResult | Exception | None = None) -> None:
        super().__init__()
        self.prepare, self.answer = prepare, launch
        self.bought_before = False

    def prepare_launch(self, *_: object) -> LaunchRequest:
        if self.prepare is not None:
            raise self.prepare
        return REQUEST

    def launch(self, request: LaunchRequest) -> LaunchResult:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer or super().launch(request)

    def find_instance(self, claim_name: str) -> Instance | None:
        return super().find_instance(claim_name) if self.bought_before else None


def waiting(ec2: Refuser, tries: int = 1, **metadata: Any) -> tuple[World, Launching]:
    """A claim that is just made, or as ``metadata`` says, in the given try of its activity."""
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    world, raw = World(), claim(nodeClassRef=reference)
    raw["status"] = {}
    raw["metadata"] |= {"creationTimestamp": stamp(world.clock()), **metadata}
    world.kube.add(NODECLAIMS, raw)
    world.kube.add(EC2NODECLASSES, node_class())
    launching = Launching(world.kube, world.recorder, cast("Any", ec2), world.clock, tries=lambda: tries)
    return world, launching


def there(world: World) -> bool:
    result = world.kube.objects.get(("nodeclaims", "", REF.name))
    return result is not None and "deletionTimestamp" not in result["metadata"]


def refused(**answer: Any) -> LaunchResult:
    return LaunchResult(reason=UNAUTHORIZED.reason, message=UNAUTHORIZED.message, waits=UNAUTHORIZED, **answer)


async def test_lif01_a_refused_launch_keeps_the_claim_and_says_why() -> None:
    """AWS-049: Launched is Unknown, with EC2's reason and message, and there is an event."""
    world, launching = waiting(Refuser(launch=refused()))
    result = await launching.launch(LaunchInput(claim=REF, request=REQUEST))
    assert result.waits is not None
    assert not result.waits.unsettled, "the first and only sending was answered"
    assert there(world)
    assert world.status_of("Launched") == ("Unknown", "Unauthorized")
    assert ("NodeClaim", REF.name, "LaunchFailed", "Unauthorized: CreateFleet: you may not") in world.recorder.events


async def test_aws042_a_missing_spot_role_has_an_event_that_says_what_to_do() -> None:
    """Spot is unavailable as a whole, and the claim makes room for one that is bought on demand."""
    every_spot = OfferingRef(capacity_type="spot", instance_type="", zone="")
    message = "AuthFailure.ServiceLinkedRoleCreationNotPermitted: CreateFleet: no"
    world, launching = waiting(
        Refuser(launch=LaunchResult(reason="SpotSLRCreationFailed", message=message, unavailable=[every_spot])),
        labels={labels.NODEPOOL: "web", labels.BATCH: "7"},
    )
    result = await launching.launch(LaunchInput(claim=REF, request=REQUEST))
    assert result.reason == Reason.INSUFFICIENT_CAPACITY
    (group,) = launching.parts.breakers.report().unlaunched
    assert (group.batch, group.reason, group.claims) == (7, Reason.INSUFFICIENT_CAPACITY, [REF.name])
    (event,) = [event for event in world.recorder.events if event[2] == "SpotSLRCreationFailed"]
    assert "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com" in event[3]


async def test_met52_only_refusals_of_the_requested_capacity_type_are_counted() -> None:
    """A full placement group rules out the offerings of the other capacity types, which EC2 was not asked for."""

    def refusals(capacity_type: str) -> float:
        counted = {"zone": "us-west-2c", "zone_id": "", "capacity_type": capacity_type}
        return (
            REGISTRY.get_sample_value(
                "karpenter_cloudprovider_instance_launch_failures_total",
                {**counted, "reason": "InsufficientCapacity"},
            )
            or 0.0
        )

    before = {item: refusals(item) for item in ("on-demand", "spot")}
    full = [OfferingRef(capacity_type=item, instance_type="m5.large", zone="us-west-2c") for item in before]
    _, launching = waiting(Refuser(launch=LaunchResult(message="the group is full", unavailable=full)))
    await launching.launch(LaunchInput(claim=REF, request=REQUEST))
    assert {item: refusals(item) - before[item] for item in before} == {"on-demand": 1, "spot": 0}
    unavailable = launching.parts.breakers.unavailable()
    assert all(item.key in unavailable for item in full)


async def test_aws043_a_full_subnet_holds_no_other_launch_of_the_nodepool_back() -> None:
    wait = LaunchWait(reason="InsufficientFreeAddressesInSubnet", message="CreateFleet: full")
    ec2 = Refuser(launch=LaunchResult(reason=wait.reason, message=wait.message, waits=wait))
    world, _ = waiting(ec2)
    breakers = LaunchBreakers(world.clock)
    launching = Launching(world.kube, world.recorder, cast("Any", ec2), world.clock, breakers=breakers)
    result = await launching.launch(LaunchInput(claim=REF, request=REQUEST))
    assert result.waits is not None
    assert there(world)
    assert breakers.report().breakers == []


async def test_a_refusal_after_a_lost_answer_keeps_the_token() -> None:
    """The first sending may have bought an instance: its token must find it."""
    _, launching = waiting(Refuser(launch=refused()), tries=2)
    result = await launching.launch(LaunchInput(claim=REF, request=REQUEST))
    assert result.waits is not None
    assert result.waits.unsettled


@pytest.mark.parametrize(
    "error", [ThrottledError("RequestLimitExceeded", "slow"), EC2Error("X", "down", retryable=True)]
)
async def test_an_ec2_that_is_busy_or_away_is_tried_again_soon_and_then_later(error: EC2Error) -> None:
    """At first by the activity; then by the workflow, which shows what it waits for. The claim is never given up."""
    for tries in range(1, TRIES_IN_PLACE):
        world, launching = waiting(Refuser(launch=error), tries=tries)
        with pytest.raises(EC2Error):
            await launching.launch(LaunchInput(claim=REF, request=REQUEST))
        assert there(world)
    world, launching = waiting(Refuser(launch=error, prepare=error), tries=TRIES_IN_PLACE)
    world.clock.instant += 2 * LAUNCH_TIMEOUT
    launch = (await launching.launch(LaunchInput(claim=REF, request=REQUEST))).waits
    prepare = (await launching.prepare(PrepareLaunchInput(claim=REF))).waits
    assert launch is not None
    assert prepare is not None
    assert (launch.has_answer, launch.unsettled) == (False, True)
    assert (prepare.has_answer, prepare.unsettled) == (False, False)
    assert there(world)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (NodeClassReadinessUnknownError("EC2NodeClass default has not been resolved yet"), "NodeClassReadinessUnknown"),
        (EC2Error("UnauthorizedOperation", "CreateLaunchTemplate: you may not"), "Unauthorized"),
        (ValueError("the user data makes no sense"), "LaunchFailed"),
        (NoImageError("no image of EC2NodeClass default (ami-1) boots arm64"), "LaunchFailed"),
    ],
)
async def test_a_preparation_that_fails_keeps_the_claim_until_its_time_is_over(error: Exception, reason: str) -> None:
    """LIF-01, LIF-05: it is deleted when it is five minutes old, so that its pods are planned again."""
    world, launching = waiting(Refuser(prepare=error))
    result = await launching.prepare(PrepareLaunchInput(claim=REF))
    assert (result.request, there(world)) == (None, True)
    assert result.waits is not None
    assert world.status_of("Launched") == ("Unknown", reason)
    world.clock.instant += LAUNCH_TIMEOUT + timedelta(seconds=1)
    late = await launching.prepare(PrepareLaunchInput(claim=REF))
    assert (late.waits, late.reason, there(world)) == (None, "launch_timeout", False)
    assert reason in late.message


async def test_lif05_a_launch_that_ec2_refuses_again_and_again_is_given_up_after_five_minutes() -> None:
    """The claim that probes is always refused at its launch, never held back before it."""
    world, launching = waiting(Refuser(launch=refused()))
    began, state, requests = world.clock(), NodeState(claim=REF, pool="web", began_at=world.clock()), 0
    while not state.stage.leaving and world.clock() - began < timedelta(hours=1):
        step = machine.next_step(state, world.clock())
        if isinstance(step, Wait):
            assert step.until is not None
            world.clock.instant = max(step.until, world.clock())
            state = machine.apply(state, DeadlinePassed(), world.clock())
            continue
        assert isinstance(step, Run)
        world.clock.instant += timedelta(seconds=0.3)
        requests += step.activity is ActivityName.LAUNCH
        value = cast("Any", step.input)
        answer = await (launching.launch(value) if step.activity is ActivityName.LAUNCH else launching.prepare(value))
        state = machine.apply(state, answer, world.clock())
    assert state.stage.leaving
    assert world.clock() - began < LAUNCH_TIMEOUT + timedelta(seconds=30)
    assert requests < 20
    assert not there(world)


async def test_lif05_a_launch_whose_earlier_answer_was_lost_is_not_given_up() -> None:
    """An instance may still appear, and only the same request finds it."""
    world, launching = waiting(Refuser(launch=refused()), tries=2)
    world.clock.instant += 2 * LAUNCH_TIMEOUT
    assert (await launching.launch(LaunchInput(claim=REF, request=REQUEST))).waits is not None
    assert there(world)


@pytest.mark.parametrize(
    "error", [NodeClassNotReadyError("it is not ready"), InsufficientCapacityError("nothing is left")]
)
async def test_lif01_want_of_capacity_and_a_class_that_is_not_ready_end_the_claim_at_once(error: Exception) -> None:
    world, launching = waiting(Refuser(prepare=error))
    result = await launching.prepare(PrepareLaunchInput(claim=REF))
    assert (result.waits, there(world)) == (None, False)


async def test_m8_a_claim_without_offerings_reports_avoided_ones_to_the_provisioner() -> None:
    """One that was started again has forgotten it, and would ask for the same again and again."""
    _, launching = waiting(Refuser(prepare=InsufficientCapacityError("nothing is left")))
    assert not launching.parts.breakers.news.is_set()
    await launching.prepare(PrepareLaunchInput(claim=REF))
    assert launching.parts.breakers.news.is_set()


async def test_a_claim_that_is_there_before_its_class_waits_for_it() -> None:
    """Both are applied in one moment, and the claim arrives first."""
    world, launching = waiting(Refuser())
    world.kube.objects.pop(("ec2nodeclasses", "", "default"))
    result = await launching.prepare(PrepareLaunchInput(claim=REF))
    assert result.waits is not None
    assert "does not exist" in result.waits.message
    assert there(world)


async def test_a_claim_whose_class_still_does_not_exist_after_ten_seconds_is_deleted() -> None:
    """A typing mistake, or a class that was deleted, must not block for five minutes."""
    world, launching = waiting(Refuser())
    world.kube.objects.pop(("ec2nodeclasses", "", "default"))
    world.clock.instant += timedelta(seconds=11)
    result = await launching.prepare(PrepareLaunchInput(claim=REF))
    assert result.waits is None
    assert not there(world)
    assert any("EC2NodeClass default does not exist" in event[3] for event in world.recorder.events)


async def test_a_new_request_looks_first_for_what_the_one_before_bought() -> None:
    ec2 = Refuser()
    _, launching = waiting(ec2)
    assert (await launching.prepare(PrepareLaunchInput(claim=REF, attempt=2))).request is not None
    ec2.bought_before = True
    prepare = await launching.prepare(PrepareLaunchInput(claim=REF, attempt=2))
    assert prepare.view.instance is not None
    assert prepare.request is None


async def test_a_launch_group_that_is_refused_is_never_asked_for_again() -> None:
    """Its members launch alone: a request for all of them would buy a second time for those who did."""
    ec2 = Refuser(launch=refused())
    _, launching = waiting(ec2)
    group = REQUEST.model_copy(update={"group": LaunchGroup(id="g", ordinal=0, size=2)})
    await launching.launch(LaunchInput(claim=REF, request=group))
    launching.parts.breakers.launched("web")
    ec2.answer = None
    again = await launching.launch(LaunchInput(claim=REF, request=group))
    assert again.instance is None
    assert again.waits is not None
    assert "launch alone" in again.waits.message
    assert (await launching.launch(LaunchInput(claim=REF, request=REQUEST))).instance is not None


async def test_offerings_without_capacity_are_avoided_although_the_claim_stays() -> None:
    """Of one request EC2 refused some offerings, and was too busy for the others."""
    unavailable = OfferingRef(capacity_type="spot", instance_type="m5.large", zone="us-west-2a")
    world, launching = waiting(Refuser(launch=refused(unavailable=[unavailable])))
    breakers = launching.parts.breakers
    result = await launching.launch(LaunchInput(claim=REF, request=REQUEST))
    assert there(world)
    assert OfferingKey("spot", "m5.large", "us-west-2a") in breakers.unavailable()
    assert breakers.news.is_set(), "the provisioner hears of it, in one message for all claims of a moment"
    assert result.unavailable == [], "or each of a thousand claims would tell it of all its types and zones"


async def test_a_preparation_looks_for_an_earlier_launch_only_if_its_workflow_is_old() -> None:
    """In a burst many preparations wait for their turn. Nothing can have bought an instance before the workflow did."""
    ec2 = Refuser()
    ec2.bought_before = True
    world, launching = waiting(ec2)
    soon = world.clock() + RESUMED_AFTER / 2
    world.clock.instant += 4 * RESUMED_AFTER
    waited = await launching.prepare(PrepareLaunchInput(claim=REF, began_at=soon))
    assert waited.request is not None
    assert waited.view.instance is None
    later = await launching.prepare(PrepareLaunchInput(claim=REF, began_at=world.clock()))
    assert later.view.instance is not None
    assert later.request is None


@pytest.mark.parametrize(
    ("fault", "types"), [(ClassFault.WHOLE, []), (ClassFault.IMAGE, ["m5.large"]), (ClassFault.NONE, ["m5.large"])]
)
async def test_aws049_a_refusal_has_the_size_of_what_ec2_refused(fault: ClassFault, types: list[str]) -> None:
    """An instance profile is the whole class's, an image that of some of its types, and other causes a NodePool's."""
    wait = evolve(UNAUTHORIZED, class_fault=fault)
    answer = LaunchResult(reason=wait.reason, message=wait.message, waits=wait)
    world, launching = waiting(Refuser(launch=answer))
    breakers = LaunchBreakers(world.clock)
    launching = Launching(
        world.kube, world.recorder, cast("Any", Refuser(launch=answer)), world.clock, breakers=breakers, tries=lambda: 1
    )
    row = FleetOverride(instance_type="m5.large", zone="us-west-2a", subnet_id="subnet-a", price=0.1)
    template = FleetTemplate(name="t", image_id="ami-1", overrides=[row])
    await launching.launch(LaunchInput(claim=REF, request=evolve(REQUEST, templates=[template])))
    (breaker,) = breakers.report().breakers
    assert (breaker.node_class, breaker.pool) == (("default", "") if fault else ("", "web"))
    assert breaker.instance_types == types


async def test_a_claim_that_no_image_boots_waits_and_holds_no_launch_back() -> None:
    """It is not given up at once: its pods would be planned for such a node again, every other second. Plans leave out
    what no image boots, and EC2 was not asked.
    """
    error = NoImageError("no image of EC2NodeClass default (ami-1) boots arm64")
    world, _ = waiting(Refuser())
    breakers = LaunchBreakers(world.clock)
    refuser = cast("Any", Refuser(prepare=error))
    launching = Launching(world.kube, world.recorder, refuser, world.clock, breakers=breakers, tries=lambda: 1)
    result = await launching.prepare(PrepareLaunchInput(claim=REF))
    assert result.waits is not None
    assert there(world)
    assert ("NodeClaim", REF.name, "LaunchFailed", f"LaunchFailed: {error}") in world.recorder.events
    assert breakers.report().breakers == []


async def test_aws049_a_template_that_ec2_refuses_holds_back_the_class() -> None:
    error = EC2Error("InvalidParameterValue", "a tag is too long", operation="CreateLaunchTemplate")
    world, _ = waiting(Refuser())
    breakers = LaunchBreakers(world.clock)
    refuser = cast("Any", Refuser(prepare=error))
    launching = Launching(world.kube, world.recorder, refuser, world.clock, breakers=breakers, tries=lambda: 1)
    await launching.prepare(PrepareLaunchInput(claim=REF))
    assert [breaker.node_class for breaker in breakers.report().breakers] == ["default"]


def of_one_type(**more: Any) -> LaunchRequest:
    """A request for one offering."""
    row = FleetOverride(instance_type="m5.large", zone="us-west-2a", subnet_id="subnet-1", price=0.1)
    template = FleetTemplate(name="t", image_id="ami-1", overrides=[row])
    return evolve(REQUEST, templates=[template], **more)


@pytest.mark.parametrize(
    ("tries", "more", "is_sent"),
    [(1, {}, False), (2, {}, True), (1, {"group": LaunchGroup(id="1-0", ordinal=0, size=2)}, True)],
    ids=["first try", "may have bought", "a group may have bought"],
)
async def test_a_launch_is_not_sent_if_ec2_refused_its_offerings_while_it_waited(
    tries: int, more: dict[str, Any], is_sent: bool
) -> None:
    """Two launches go first, and the others wait for their outcome. Each would cost a call."""
    calls: list[LaunchRequest] = []

    class Counting(Refuser):
        def launch(self, request: LaunchRequest) -> LaunchResult:
            calls.append(request)
            return super().launch(request)

    world, launching = waiting(Counting(), tries)
    request = of_one_type(**more)
    launching.parts.breakers.mark_unavailable(
        [OfferingRef(capacity_type="on-demand", instance_type="m5.large", zone="us-west-2a")]
    )
    result = await launching.launch(LaunchInput(claim=REF, request=request))
    assert bool(calls) == is_sent
    if not is_sent:
        assert Reason.of(result.reason) is Reason.INSUFFICIENT_CAPACITY
        assert not there(world)
