"""AWS-167, EC-S7: a class is tried out by dry runs. It names the refused call, the right, and what to add."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from activities.ec2 import dry_runs
from activities.ec2.client import Ec2
from activities.ec2.cluster import describe_cluster
from activities.ec2.nodeclass import UnansweredError
from activities.ec2.provider import Ec2Provider
from activities.ec2.ttl_cache import Refresh
from sandbox.ec2.authorization.identities import POLICY
from sandbox.ec2.faults import Fault
from tenon.apis import labels
from tenon.apis.common import Condition
from tenon.apis.conditions import get_condition
from tenon.apis.ec2nodeclass import EC2NodeClass, EC2NodeClassStatus
from tenon.ec2.launch.dry_runs import MOST_RESERVATIONS
from tenon.kube.requirements import Requirements
from tests.ec2.samples import node_class

if TYPE_CHECKING:
    from sandbox.ec2.server import Server

pytestmark = pytest.mark.integration

CALLS = ("CreateLaunchTemplate", "CreateFleet", "RunInstances")


@pytest.fixture
def fresh(clients: Ec2) -> Ec2Provider:
    """A provider that has tried out nothing yet."""
    return Ec2Provider(clients, describe_cluster(clients, "sandbox"))


@pytest.fixture(autouse=True)
def _nothing_reserved(server: Server) -> Iterator[None]:
    yield
    server.world.reservations.clear()
    server.world.groups.clear()


@pytest.fixture
def without(server: Server) -> Iterator[Callable[..., None]]:
    """Takes a right from the worker, until the test ends or it is called with an empty name."""

    def take(right: str, resource: str = "*") -> None:
        document: dict[str, Any] = json.loads(POLICY.read_text())
        if right:
            document["Statement"].append({"Effect": "Deny", "Action": right, "Resource": resource})
        server.world.judge.replace("sandbox", json.dumps(document))

    yield take
    server.world.judge.replace("sandbox", None)


def written(**spec: Any) -> EC2NodeClass:
    return node_class(role="KarpenterNodeRole-sandbox", **spec)


def resolved(status: EC2NodeClassStatus, **spec: Any) -> EC2NodeClass:
    return written(**spec).model_copy(update={"status": status})


def validation(status: EC2NodeClassStatus) -> Condition:
    condition = get_condition(status.conditions, "ValidationSucceeded")
    assert condition is not None
    return condition


def asked(server: Server) -> list[str]:
    """The dry runs that EC2 got, in order."""
    calls = server.world.calls.listing()
    return [call["action"] for call in calls if call["parameters"].get("DryRun") == "true"]


def test_aws167_a_class_is_tried_out_when_it_or_its_answers_change(fresh: Ec2Provider, server: Server) -> None:
    status = fresh.resolve_node_class(written())
    assert validation(status).status == "True"
    assert asked(server) == list(CALLS)
    assert not server.world.book.all(), "nothing is launched"
    assert not [
        launch_template for launch_template in fresh.launch_templates() if launch_template.node_class == "default"
    ], "nothing is made"
    fresh.resolve_node_class(resolved(status))
    assert asked(server) == list(CALLS), "what passed is not asked for again"
    fresh.resolve_node_class(resolved(status, tags={"team": "blue"}))
    assert asked(server) == [*CALLS, *CALLS]
    fewer = {"amiSelectorTerms": [{"alias": "bottlerocket@latest"}], "tags": {"team": "blue"}}
    fresh.resolve_node_class(resolved(status, **fewer))
    assert len(asked(server)) == 3 * len(CALLS)


def test_aws167_a_class_is_tried_out_again_as_often_as_it_is_resolved(clients: Ec2, server: Server) -> None:
    """So a right that is lost later shows without a change of the class."""
    often = Refresh(Refresh().images * 0, Refresh().subnets * 0)
    provider = Ec2Provider(clients, describe_cluster(clients, "sandbox"), refresh=often)
    for _ in range(2):
        provider.resolve_node_class(written())
    assert asked(server) == [*CALLS, *CALLS]


@pytest.mark.parametrize(
    ("right", "reason", "call"),
    [
        ("ec2:CreateLaunchTemplate", "CreateLaunchTemplateAuthCheckFailed", "CreateLaunchTemplate"),
        ("ec2:CreateFleet", "CreateFleetAuthCheckFailed", "CreateFleet"),
        ("ec2:RunInstances", "RunInstancesAuthCheckFailed", "RunInstances"),
        ("iam:PassRole", "RunInstancesAuthCheckFailed", "RunInstances"),
    ],
)
def test_ecs7_the_condition_names_the_refused_call_and_the_right(
    fresh: Ec2Provider, without: Callable[..., None], right: str, reason: str, call: str
) -> None:
    without(right)
    status = fresh.resolve_node_class(written())
    condition = validation(status)
    assert (condition.status, condition.reason) == ("False", reason)
    assert f"AWS refused ec2:{call} " in condition.message
    assert f"denies {right} on arn:aws:" in condition.message
    without("")
    again = fresh.resolve_node_class(resolved(status))
    assert validation(again).status == "True", "a refusal is not remembered"


def test_ecs7_what_to_add_is_said_and_every_refused_call_is_named(fresh: Ec2Provider, server: Server) -> None:
    try:
        server.world.judge.replace("sandbox", json.dumps(_only_reading()))
        condition = validation(fresh.resolve_node_class(written()))
    finally:
        server.world.judge.replace("sandbox", None)
    assert condition.reason == "CreateLaunchTemplateAuthCheckFailed"
    for call in CALLS:
        assert f"AWS refused ec2:{call} (UnauthorizedOperation): allow ec2:{call} on arn:aws:ec2:" in condition.message
    assert condition.message.count("in the IAM policy of Tenon's role") == len(CALLS)


def _only_reading() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(POLICY.read_text())
    launching = {"LaunchFrom", "LaunchByOwnTemplate", "CreateWithClusterTags", "TagAtCreation"}
    document["Statement"] = [item for item in document["Statement"] if item["Sid"] not in launching]
    return document


def test_another_refusal_says_nothing_about_rights(fresh: Ec2Provider, server: Server) -> None:
    server.world.faults.add(Fault(action="RunInstances", code="InvalidParameterValue"))
    assert validation(fresh.resolve_node_class(written())).status == "True"


def test_a_class_whose_new_profile_ec2_never_knows_is_left_to_its_launches(
    fresh: Ec2Provider, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dry run may be stricter than a launch, which has the last word."""
    refusal = "Value (x) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"
    server.world.faults.add(Fault(action="RunInstances", code="InvalidParameterValue", message=refusal, count=None))
    with pytest.raises(UnansweredError, match="does not know the new instance profile"):
        fresh.resolve_node_class(written())
    monkeypatch.setattr(dry_runs, "PROFILE_APPEARS_WITHIN", timedelta(0))
    assert validation(fresh.resolve_node_class(written())).status == "True"


def test_an_outage_makes_a_new_class_unknown_and_no_other(fresh: Ec2Provider, server: Server) -> None:
    server.world.faults.add(Fault(action="CreateFleet", code="InternalError", status=500, count=None))
    with pytest.raises(UnansweredError) as raised:
        fresh.resolve_node_class(written())
    assert validation(raised.value.status).status == "Unknown"
    server.world.faults.clear()
    status = fresh.resolve_node_class(written())
    server.world.faults.add(Fault(action="CreateFleet", code="InternalError", status=500, count=None))
    with pytest.raises(UnansweredError) as raised:
        fresh.resolve_node_class(resolved(status, tags={"team": "red"}))
    assert validation(raised.value.status).status == "True"


def test_ecs7_a_class_without_its_parts_is_not_tried_out(fresh: Ec2Provider, server: Server) -> None:
    condition = validation(fresh.resolve_node_class(written(subnetSelectorTerms=[{"tags": {"no": "such"}}])))
    assert (condition.status, condition.reason) == ("Unknown", "DependenciesNotReady")
    assert "SubnetsReady" in condition.message
    assert asked(server) == []


def test_aws167_the_placement_group_of_a_class_is_tried_out(
    fresh: Ec2Provider, server: Server, without: Callable[..., None]
) -> None:
    server.world.groups.create("rack", "spread")
    allowed = fresh.resolve_node_class(written(placementGroupSelector={"name": "rack"}))
    assert validation(allowed).status == "True"
    without("ec2:RunInstances", "arn:aws:ec2:us-west-2:*:placement-group/*")
    condition = validation(fresh.resolve_node_class(written(placementGroupSelector={"name": "rack"}, tags={"a": "b"})))
    assert (condition.status, condition.reason) == ("False", "RunInstancesAuthCheckFailed")
    assert "denies ec2:RunInstances on arn:aws:" in condition.message
    assert ":placement-group/" in condition.message
    assert validation(fresh.resolve_node_class(written(tags={"a": "b"}))).status == "True", "it names no group"


def test_aws167_each_capacity_reservation_of_a_class_is_tried_out(
    fresh: Ec2Provider, server: Server, without: Callable[..., None]
) -> None:
    """Also a full one. What it does not need is not asked for again: three calls, and one for each reservation."""
    output = [
        server.world.reservations.create(instance_type="m5.large", zone="us-west-2a", total=total, tags={"team": "a"})
        for total in (2, 0)
    ]
    selecting = {"capacityReservationSelectorTerms": [{"tags": {"team": "a"}}]}
    status = fresh.resolve_node_class(written(**selecting))
    assert validation(status).status == "True"
    assert asked(server) == [*CALLS, "RunInstances", "RunInstances"]
    fresh.resolve_node_class(resolved(status, **selecting))
    assert len(asked(server)) == 5, "what passed is not asked for again"
    for item in output:
        fresh.count_places()
        without("ec2:RunInstances", f"arn:aws:ec2:us-west-2:*:capacity-reservation/{item.id}")
        again = fresh.resolve_node_class(resolved(status, **selecting, tags={"for": item.id}))
        condition = validation(again)
        assert (condition.status, condition.reason) == ("False", "RunInstancesAuthCheckFailed")
        assert f":capacity-reservation/{item.id}" in condition.message
        assert validation(fresh.resolve_node_class(written())).status == "True", "it selects no reservation"


def test_aws167_of_many_reservations_only_the_first_are_tried_out(fresh: Ec2Provider, server: Server) -> None:
    for _ in range(MOST_RESERVATIONS + 3):
        server.world.reservations.create(instance_type="m5.large", zone="us-west-2a", total=1, tags={"team": "a"})
    fresh.resolve_node_class(written(capacityReservationSelectorTerms=[{"tags": {"team": "a"}}]))
    assert len(asked(server)) == len(CALLS) + MOST_RESERVATIONS


def test_aws167_types_that_no_node_pool_selects_are_not_tried_out(fresh: Ec2Provider, server: Server) -> None:
    """Not into their capacity reservations either. Which capacity types a NodePool takes does not count."""
    server.world.reservations.create(instance_type="m5.large", zone="us-west-2a", total=1, tags={"team": "a"})
    terms = [
        {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["c5"]},
        {"key": labels.CAPACITY_TYPE, "operator": "In", "values": [labels.RESERVED]},
    ]
    written_class = written(capacityReservationSelectorTerms=[{"tags": {"team": "a"}}])
    fresh.resolve_node_class(written_class, pool_requirements=[Requirements.from_terms(terms)])
    calls = server.world.calls.listing()
    types = [call["parameters"]["InstanceType"] for call in calls if call["action"] == "RunInstances"]
    assert [instance_type.partition(".")[0] for instance_type in types] == ["c5"]


def test_set27_dry_runs_can_be_turned_off(clients: Ec2, server: Server) -> None:
    provider = Ec2Provider(clients, describe_cluster(clients, "sandbox"), dry_runs=False)
    condition = validation(provider.resolve_node_class(written()))
    assert (condition.status, condition.reason) == ("True", "DryRunDisabled")
    assert asked(server) == []
