"""What a launch makes of the answers of CreateFleet: bought, no capacity, or tried again later."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from activities.ec2.instances import Purchase
from activities.ec2.launch import Launcher
from activities.ec2.launch_templates import LaunchTemplates
from tenon.ec2.avoided import UnavailableOfferings
from tenon.kube.offerings import OfferingKey
from tenon.lifecycle.messages.launch import FleetOverride, FleetTemplate, Instance, LaunchRequest, LaunchResult

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


def launcher(clients: SimpleNamespace, found: SimpleNamespace) -> Launcher:
    ec2 = cast("Any", clients)
    return Launcher(ec2, cast("Any", found), LaunchTemplates(ec2, "sandbox"))


def overrides(row: FleetOverride) -> dict[str, str]:
    return {"InstanceType": row.instance_type, "AvailabilityZone": row.zone}


def launched(
    *errors: str, instances: tuple[str, ...] = (), capacity_type: str = "spot", by_token: Instance | None = None
) -> LaunchResult:
    """What becomes of an answer of HTTP 200 with these errors, one for each override, and these instances."""
    failures = [
        {
            "ErrorCode": code,
            "ErrorMessage": "as EC2 puts it",
            "LaunchTemplateAndOverrides": {"Overrides": overrides(row)},
        }
        for code, row in zip(errors, ROWS, strict=False)
    ]
    answer = {"Errors": failures, "Instances": [{"InstanceIds": [each]} for each in instances]}
    clients = SimpleNamespace(ec2=SimpleNamespace(create_fleet=lambda **_: answer))
    purchase = Purchase(by_token, decided=by_token is not None)
    found = SimpleNamespace(describe=lambda _: BOUGHT, by_token=lambda _: purchase)
    template = FleetTemplate(name="t", image_id="ami-1", overrides=ROWS)
    request = LaunchRequest(client_token="token", capacity_type=capacity_type, templates=[template], tags={})
    return launcher(clients, found).create_fleet(request)


@pytest.mark.parametrize(
    ("code", "reason"), [("RequestLimitExceeded", "RequestLimitExceeded"), ("InternalError", "InternalError")]
)
def test_throttling_inside_an_answer_is_no_refusal(code: str, reason: str) -> None:
    """AWS-049: the claim stays. The offerings that had no capacity are avoided all the same."""
    result = launched("InsufficientInstanceCapacity", code)
    assert result.waits is not None
    assert (result.waits.reason, result.waits.answered, result.waits.unsettled) == (reason, False, False)
    assert [each.instance_type for each in result.unavailable] == ["m5.large"]


def test_what_was_bought_is_taken_although_ec2_was_busy() -> None:
    result = launched("RequestLimitExceeded", instances=("i-1",))
    assert result.instance is not None
    assert (result.instance.id, result.waits) == ("i-1", None)


@pytest.mark.parametrize("code", ["UnauthorizedOperation", "InvalidAMIID.NotFound", "NeverHeardOf"])
def test_lif01_a_refusal_inside_an_answer_keeps_the_claim(code: str) -> None:
    result = launched(code, code)
    assert result.waits is not None
    assert (result.waits.answered, result.waits.unsettled) == (True, False)
    assert code in result.waits.message


@pytest.mark.parametrize(
    ("code", "reason"), [("VcpuLimitExceeded", "VCPULimitExceeded"), ("MaxFleetCountExceeded", "FleetQuotaExceeded")]
)
def test_a_quota_of_the_account_is_not_one_offering_after_another(code: str, reason: str) -> None:
    """The next type meets the same quota: the claim waits, and no offering counts as sold out."""
    result = launched(code, code, capacity_type="on-demand")
    assert result.unavailable == []
    assert result.waits is not None
    assert (result.waits.reason, result.waits.answered) == (reason, True)


def test_a_spot_quota_rules_out_all_of_spot_and_nothing_else() -> None:
    """AWS-042: one key stands for every type and zone, so that on-demand is tried next."""
    result = launched("MaxSpotInstanceCountExceeded", "MaxSpotInstanceCountExceeded")
    assert result.waits is None
    avoided = UnavailableOfferings(each.key for each in result.unavailable)
    assert len(avoided) == 1
    assert OfferingKey("spot", "never-asked.for", "us-west-2c") in avoided
    assert OfferingKey("on-demand", "m5.large", "us-west-2a") not in avoided


def test_no_capacity_at_all_gives_the_claim_up() -> None:
    """AWS-040."""
    result = launched("InsufficientInstanceCapacity", "UnfulfillableCapacity")
    assert result.waits is None
    assert len(result.unavailable) == len(ROWS)


def test_an_answer_without_instances_and_errors_is_looked_up_by_its_token() -> None:
    """EC2 may leave the instances out when a request is repeated."""
    assert launched(by_token=BOUGHT).instance == BOUGHT
    nothing = launched().waits
    assert nothing is not None
    assert nothing.unsettled, "an instance may still appear"
    assert nothing.accepted, "but not for long: EC2 buys nothing more for this token"
    assert not nothing.answered


def test_aws126_a_new_instance_that_is_described_before_its_reservation_is_reserved() -> None:
    """EC2 is eventually consistent, and the template of the launch allows no other capacity."""
    rows = [row.model_copy(update={"reservation_id": "cr-1"}) for row in ROWS]
    bought = {"InstanceIds": ["i-1"], "LaunchTemplateAndOverrides": {"Overrides": overrides(rows[0])}}
    clients = SimpleNamespace(ec2=SimpleNamespace(create_fleet=lambda **_: {"Instances": [bought]}))
    described = BOUGHT.model_copy(update={"capacity_type": "on-demand"})
    found = SimpleNamespace(describe=lambda _: described)
    request = LaunchRequest(
        client_token="token",
        capacity_type="reserved",
        templates=[FleetTemplate(name="t", image_id="ami-1", overrides=rows)],
        tags={},
        reservation_type="default",
    )
    instance = launcher(clients, found).create_fleet(request).instance
    assert instance is not None
    assert (instance.capacity_type, instance.reservation_id, instance.reservation_type) == (
        "reserved",
        "cr-1",
        "default",
    )
