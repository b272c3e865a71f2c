"""What a launch makes of the answers of CreateFleet: bought, no capacity, or tried again later."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from activities.ec2.errors import EC2Error
from activities.ec2.instances import LaunchOutcome
from activities.ec2.launch import Launcher
from activities.ec2.launch_templates import LaunchTemplates
from tenon.ec2.refusals.class_faults import ClassFault
from tenon.ec2.refusals.unavailable import UnavailableOfferings
from tenon.kube.offerings import OfferingKey
from tenon.messages.launch import FleetOverride, FleetTemplate, Instance, LaunchRequest, LaunchResult

BOUGHT = Instance(
    id="i-1",
    provider_id="aws:///us-west-2a/i-1",
    instance_type="m5.large",
    zone="us-west-2a",
    capacity_type="spot",
    image_id="ami-1",
    price=0.1,
    private_dns_name="ip-10-0-0-1",
)
ROWS = [
    FleetOverride(instance_type=name, zone="us-west-2a", subnet_id="subnet-a", price=0.1)
    for name in ("m5.large", "c5.large")
]


def launcher(clients: SimpleNamespace, stub: SimpleNamespace) -> Launcher:
    ec2 = cast("Any", clients)
    return Launcher(ec2, cast("Any", stub), LaunchTemplates(ec2, "sandbox"))


def overrides(row: FleetOverride) -> dict[str, str]:
    return {"InstanceType": row.instance_type, "AvailabilityZone": row.zone}


def launched(
    *errors: str,
    instances: tuple[str, ...] = (),
    capacity_type: str = "spot",
    by_token: Instance | None = None,
    message: str = "as EC2 puts it",
) -> LaunchResult:
    """What becomes of an answer of HTTP 200 with these errors, one for each override, and these instances."""
    failures = [
        {
            "ErrorCode": code,
            "ErrorMessage": message,
            "LaunchTemplateAndOverrides": {"Overrides": overrides(row)},
        }
        for code, row in zip(errors, ROWS, strict=False)
    ]
    answer = {"Errors": failures, "Instances": [{"InstanceIds": [instance]} for instance in instances]}
    clients = SimpleNamespace(ec2=SimpleNamespace(create_fleet=lambda **_: answer))
    purchase = LaunchOutcome(by_token, decided=by_token is not None)
    stub = SimpleNamespace(describe=lambda _: BOUGHT, by_token=lambda _: purchase)
    return launcher(clients, stub).create_fleet(request_of(capacity_type))


def request_of(capacity_type: str, rows: list[FleetOverride] = ROWS) -> LaunchRequest:
    template = FleetTemplate(name="t", image_id="ami-1", overrides=rows)
    return LaunchRequest(client_token="token", capacity_type=capacity_type, templates=[template], tags={})


def answered(
    *tried: tuple[str, str, str], types: tuple[str, ...] = (), message: str = "as EC2 puts it", **request: str
) -> LaunchResult:
    """What becomes of an answer that refuses offerings of ``tried``, given by type, zone and code.

    EC2 did not try ``types``, of which the request has one offering each, and says UnfulfillableCapacity of them.
    """
    places = [*tried, *((name, "us-west-2a", "UnfulfillableCapacity") for name in types)]
    rows = [
        FleetOverride(
            instance_type=name,
            zone=zone,
            subnet_id=f"subnet-{zone[-1]}",
            price=0.1,
            reservation_id=f"cr-{name}" if request.get("capacity_type") == "reserved" else "",
        )
        for name, zone, _ in places
    ]
    failures = [
        {
            "ErrorCode": code,
            "ErrorMessage": "Unable to fulfill capacity" if code == "UnfulfillableCapacity" else message,
            "LaunchTemplateAndOverrides": {"Overrides": overrides(row)},
        }
        for row, (_, _, code) in zip(rows, places, strict=True)
    ]
    clients = SimpleNamespace(ec2=SimpleNamespace(create_fleet=lambda **_: {"Errors": failures, "Instances": []}))
    return launcher(clients, SimpleNamespace()).create_fleet(request_of(request.get("capacity_type", "spot"), rows))


def refused_call(
    code: str, capacity_type: str, message: str = "as EC2 puts it", rows: list[FleetOverride] = ROWS
) -> LaunchResult:
    """What becomes of a call that EC2 refuses as a whole."""

    def refuse(**_: object) -> None:
        raise EC2Error(code, message)

    return launcher(SimpleNamespace(ec2=SimpleNamespace(create_fleet=refuse)), SimpleNamespace()).create_fleet(
        request_of(capacity_type, rows)
    )


@pytest.mark.parametrize(
    ("code", "reason"), [("RequestLimitExceeded", "RequestLimitExceeded"), ("InternalError", "InternalError")]
)
def test_throttling_inside_an_answer_is_no_refusal(code: str, reason: str) -> None:
    """AWS-049: the claim stays. The offerings that had no capacity are unavailable all the same."""
    result = launched("InsufficientInstanceCapacity", code)
    assert result.waits is not None
    assert (result.waits.reason, result.waits.has_answer, result.waits.unsettled) == (reason, False, False)
    assert [item.instance_type for item in result.unavailable] == ["m5.large"]


def test_what_was_bought_is_taken_although_ec2_was_busy() -> None:
    result = launched("RequestLimitExceeded", instances=("i-1",))
    assert result.instance is not None
    assert (result.instance.id, result.waits) == ("i-1", None)


@pytest.mark.parametrize("code", ["UnauthorizedOperation", "InvalidAMIID.NotFound", "NeverHeardOf"])
def test_lif01_a_refusal_inside_an_answer_keeps_the_claim(code: str) -> None:
    result = launched(code, code)
    assert result.waits is not None
    assert (result.waits.has_answer, result.waits.unsettled) == (True, False)
    assert code in result.waits.message


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("InvalidIamInstanceProfile.NotFound", ClassFault.WHOLE),
        ("InvalidAMIID.NotFound", ClassFault.IMAGE),
        ("PendingVerification", ClassFault.NONE),
    ],
)
def test_aws049_a_refusal_says_what_of_the_class_it_is_about(code: str, fault: ClassFault, whole: bool) -> None:
    result = refused_call(code, "spot") if whole else launched(code, code)
    assert result.waits is not None
    assert result.waits.class_fault == fault


@pytest.mark.parametrize(
    ("code", "capacity_type"),
    [
        ("VcpuLimitExceeded", "on-demand"),
        ("VcpuLimitExceeded", "spot"),
        ("MaxSpotInstanceCountExceeded", "spot"),
    ],
)
@pytest.mark.parametrize("whole", [False, True])
def test_aws040_a_used_up_quota_rules_out_the_types_that_share_it(code: str, capacity_type: str, whole: bool) -> None:
    """The claim ends, as after a lack of capacity. Other families, and the other capacity type, go on."""
    result = refused_call(code, capacity_type) if whole else launched(code, code, capacity_type=capacity_type)
    assert result.waits is None
    assert code in result.message
    unavailable = UnavailableOfferings(item.key for item in result.unavailable)
    assert OfferingKey(capacity_type, "r7g.never-asked", "us-west-2c") in unavailable
    assert OfferingKey(capacity_type, "g5.xlarge", "us-west-2a") not in unavailable
    other = "spot" if capacity_type == "on-demand" else "on-demand"
    assert OfferingKey(other, "m5.large", "us-west-2a") not in unavailable


def test_a_quota_in_a_mixed_answer_is_avoided_too() -> None:
    """Otherwise the next claim would request the same types again at once."""
    result = launched("InsufficientInstanceCapacity", "VcpuLimitExceeded", capacity_type="on-demand")
    assert result.waits is None
    assert "VcpuLimitExceeded" in result.message
    assert OfferingKey.of_quota("on-demand", "Standard") in {item.key for item in result.unavailable}


def test_aws040_the_quota_of_fleets_rules_out_the_refused_pairs() -> None:
    result = launched("MaxFleetCountExceeded", "MaxFleetCountExceeded", capacity_type="on-demand")
    assert result.waits is None
    assert [(item.instance_type, item.zone) for item in result.unavailable] == [
        ("c5.large", "us-west-2a"),
        ("m5.large", "us-west-2a"),
    ]


@pytest.mark.parametrize("code", ["UnauthorizedOperation", "OptInRequired"])
def test_a_refused_type_rules_out_only_itself(code: str) -> None:
    """An organization's policy denies one type, or an account has not opted in to it."""
    result = launched("InsufficientInstanceCapacity", code)
    assert result.waits is None
    unavailable = UnavailableOfferings(item.key for item in result.unavailable)
    assert OfferingKey("spot", "c5.large", "us-west-2c") in unavailable
    assert OfferingKey("spot", "m5.large", "us-west-2c") not in unavailable
    assert OfferingKey("on-demand", "c5.large", "us-west-2c") not in unavailable


@pytest.mark.parametrize("subject", ["ec2:RunInstances on resource: arn:aws:ec2:x::image/ami-1", "ec2:CreateFleet"])
def test_a_missing_right_to_something_else_is_no_refusal_of_a_type(subject: str) -> None:
    message = f"You are not authorized to perform this operation. User: me is not authorized to perform: {subject}"
    assert launched("UnauthorizedOperation", message=message).waits is not None


def test_the_encoded_part_of_a_message_is_left_out() -> None:
    """It differs in each answer, and each change of a condition would be an event."""
    message = "You may not. Encoded authorization failure message: kJ9_x-2"
    assert "kJ9" not in launched("UnauthorizedOperation", "UnauthorizedOperation", message=message).message
    assert "kJ9" not in refused_call("UnauthorizedOperation", "spot", message).message


def test_no_capacity_at_all_gives_the_claim_up() -> None:
    """AWS-040."""
    result = launched("InsufficientInstanceCapacity", "UnfulfillableCapacity")
    assert result.waits is None
    assert len(result.unavailable) == len(ROWS)


THREE = [("m5.large", "us-west-2a"), ("m5.large", "us-west-2b"), ("c5.large", "us-west-2a")]
"""EC2 tries three offerings at most for a fleet, and answers UnfulfillableCapacity for the others."""
UNTRIED = ("r5.large", "m6i.large")


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("InvalidBlockDeviceMapping", ClassFault.IMAGE),
        ("InvalidIamInstanceProfile.NotFound", ClassFault.WHOLE),
        ("NeverHeardOf", ClassFault.NONE),
    ],
)
def test_aws049_lif01_offerings_that_were_not_tried_hide_no_fault_of_the_class(code: str, fault: ClassFault) -> None:
    result = answered(*((*place, code) for place in THREE), types=UNTRIED)
    assert result.waits is not None
    assert (result.waits.class_fault, result.waits.has_answer) == (fault, True)
    assert result.unavailable == []
    assert result.message.endswith("(3 of 5 offerings refused)")


def test_aws049_a_busy_ec2_says_nothing_about_offerings_that_it_did_not_try() -> None:
    result = answered(*((*place, "RequestLimitExceeded") for place in THREE), types=UNTRIED)
    assert result.waits is not None
    assert not result.waits.has_answer
    assert result.unavailable == []


def test_aws043_a_full_subnet_says_nothing_about_offerings_that_ec2_did_not_try() -> None:
    result = answered(*((*place, "InsufficientFreeAddressesInSubnet") for place in THREE), types=UNTRIED)
    assert result.waits is not None
    assert result.unavailable == []


def test_aws040_a_used_up_quota_rules_out_no_untried_types_of_other_quotas() -> None:
    result = answered(
        *((*place, "VcpuLimitExceeded") for place in THREE), types=("r5.large", "g5.xlarge"), capacity_type="on-demand"
    )
    assert result.waits is None
    assert {item.key for item in result.unavailable} == {OfferingKey.of_quota("on-demand", "Standard")}


def test_n15_405_reservations_that_were_not_tried_are_not_ruled_out() -> None:
    result = answered(
        ("m5.large", "us-west-2a", "ReservationCapacityExceeded"), types=UNTRIED, capacity_type="reserved"
    )
    assert result.waits is None
    assert {item.key for item in result.unavailable} == {
        OfferingKey.of_full_reservation("reserved", "us-west-2a", "cr-m5.large")
    }


@pytest.mark.parametrize("code", ["UnauthorizedOperation", "FreeTierRestrictionError"])
@pytest.mark.parametrize("names", [["m5.large", "c5.large"], ["m5.large", "m5.large"]], ids=["several", "one"])
def test_refused_types_make_room_for_those_that_ec2_did_not_try(names: list[str], code: str) -> None:
    """A policy may deny the cheapest types. The same ones would be tried first each time."""
    denied = "is not authorized to perform: ec2:RunInstances on resource: arn:aws:ec2:us-west-2:1:instance/*"
    tried = [(name, f"us-west-2{letter}", code) for name, letter in zip(names, "ab", strict=True)]
    result = answered(*tried, types=UNTRIED, message=denied)
    assert result.waits is not None, "the cause may be one that all types have in common"
    assert {item.key for item in result.unavailable} == {OfferingKey("spot", name, "") for name in names}


def test_refused_types_make_no_room_if_ec2_tried_every_type() -> None:
    code = "FreeTierRestrictionError"
    result = answered(("m5.large", "us-west-2a", code), ("c5.large", "us-west-2b", code))
    assert result.unavailable == []


@pytest.mark.parametrize("code", ["OptInRequired", "InvalidParameterCombination", "UnsupportedOperation"])
def test_a_fault_that_the_class_may_be_the_cause_of_rules_out_no_type(code: str) -> None:
    """Other EC2NodeClasses and NodePools may get these types, and each probe would take the next cheapest from them."""
    tried = [("m5.large", "us-west-2a", code), ("c5.large", "us-west-2b", code)]
    result = answered(*tried, types=UNTRIED)
    assert result.waits is not None
    assert result.unavailable == []


def test_a_refused_type_makes_no_room_if_only_its_own_zones_were_not_tried() -> None:
    code = "InvalidParameterCombination"
    result = answered(("m5.large", "us-west-2a", code), ("m5.large", "us-west-2b", code), types=("m5.large",))
    assert result.waits is not None
    assert result.unavailable == []


def test_a_right_that_no_type_lacks_rules_out_no_type_that_was_tried() -> None:
    message = "User: me is not authorized to perform: ec2:RunInstances on resource: arn:aws:ec2:us-west-2::image/ami-1"
    result = answered(*((*place, "UnauthorizedOperation") for place in THREE), types=UNTRIED, message=message)
    assert result.waits is not None
    assert result.waits.class_fault == ClassFault.IMAGE
    assert result.unavailable == []


def test_a_refused_type_next_to_one_without_capacity_gives_the_claim_up() -> None:
    result = answered(
        ("m5.large", "us-west-2a", "OptInRequired"),
        ("c5.large", "us-west-2a", "InsufficientInstanceCapacity"),
        types=UNTRIED,
    )
    assert result.waits is None
    assert {item.key for item in result.unavailable} == {
        OfferingKey("spot", "m5.large", ""),
        OfferingKey("spot", "c5.large", "us-west-2a"),
    }


@pytest.mark.parametrize("code", ["InvalidParameterCombination", "UnsupportedOperation", "UnauthorizedOperation"])
@pytest.mark.parametrize("whole", [False, True])
def test_a_request_for_one_type_does_not_blame_the_type(code: str, whole: bool) -> None:
    """The EC2NodeClass may be the cause, and then other classes and NodePools get this type."""
    rows = ROWS[:1]
    if whole:
        result = refused_call(code, "on-demand", rows=rows)
    else:
        result = answered(("m5.large", "us-west-2a", code), capacity_type="on-demand")
    assert result.waits is not None
    assert result.unavailable == []


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "UnauthorizedOperation",
            "is not authorized to perform: ec2:RunInstances on resource: arn:aws:ec2:x:1:instance/*",
        ),
        ("InvalidInstanceType", "as EC2 puts it"),
        ("FreeTierRestrictionError", "The specified instance type is not eligible for Free Tier"),
    ],
)
def test_a_request_for_one_type_rules_it_out_if_ec2_names_the_type(code: str, message: str) -> None:
    result = answered(("m5.large", "us-west-2a", code), message=message)
    assert result.waits is None
    assert {item.key for item in result.unavailable} == {OfferingKey("spot", "m5.large", "")}


def test_an_answer_without_instances_and_errors_is_looked_up_by_its_token() -> None:
    """EC2 may leave the instances out when a request is repeated."""
    assert launched(by_token=BOUGHT).instance == BOUGHT
    nothing = launched().waits
    assert nothing is not None
    assert nothing.unsettled, "an instance may still appear"
    assert nothing.accepted, "but not for long: EC2 buys nothing more for this token"
    assert not nothing.has_answer


def test_aws126_a_new_instance_that_is_described_before_its_reservation_is_reserved() -> None:
    """EC2 is eventually consistent, and the template of the launch allows no other capacity."""
    rows = [replace(row, reservation_id="cr-1") for row in ROWS]
    bought = {"InstanceIds": ["i-1"], "LaunchTemplateAndOverrides": {"Overrides": overrides(rows[0])}}
    clients = SimpleNamespace(ec2=SimpleNamespace(create_fleet=lambda **_: {"Instances": [bought]}))
    described = BOUGHT.model_copy(update={"capacity_type": "on-demand"})
    stub = SimpleNamespace(describe=lambda _: described)
    request = LaunchRequest(
        client_token="token",
        capacity_type="reserved",
        templates=[FleetTemplate(name="t", image_id="ami-1", overrides=rows)],
        tags={},
        reservation_type="default",
    )
    instance = launcher(clients, stub).create_fleet(request).instance
    assert instance is not None
    assert (instance.capacity_type, instance.reservation_id, instance.reservation_type) == (
        "reserved",
        "cr-1",
        "default",
    )
