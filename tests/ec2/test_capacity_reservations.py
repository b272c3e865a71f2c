"""Capacity reservations on the sandbox's EC2: found, counted, launched into, full, ended."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from activities.ec2 import capacity_reservations
from activities.ec2.capacity_reservations import CapacityReservations
from activities.ec2.client import Ec2
from activities.ec2.provider import Ec2Provider
from tenon.apis import labels
from tenon.apis.ec2nodeclass import CapacityReservation, EC2NodeClass
from tenon.ec2.launch.launched_labels import launched_labels
from tenon.ec2.types.capacity_reservations import Places, drains, launched_into, reservation_ids, without_taken
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.offerings import OfferingKey
from tenon.messages.launch import Instance, LaunchResult
from tests.ec2.conftest import until_shown
from tests.ec2.reserving import ZONE, offered, reserve, selecting
from tests.ec2.samples import node_claim, node_class

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox.ec2.server import Server

pytestmark = pytest.mark.integration


RESERVED = ("karpenter.sh/capacity-type", "In", ["reserved"])
NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _no_reservations(server: Server, provider: Ec2Provider) -> Iterator[None]:
    """Each test has its own reservations, and counts their places afresh."""
    provider.count_places()
    yield
    server.world.reservations.clear()


def launch(provider: Ec2Provider, selection: EC2NodeClass, name: str, *terms: Any, **more: Any) -> LaunchResult:
    return provider.launch(provider.prepare_launch(node_claim(RESERVED, *terms, name=name), selection, 1, **more))


def bought(result: LaunchResult) -> Instance:
    assert result.instance is not None, result.message
    return result.instance


@pytest.mark.parametrize(
    ("term", "result"),
    [
        ({"tags": {"team": "a"}}, ["a"]),
        ({"tags": {"team": "*"}}, ["a", "b"]),
        ({"instanceMatchCriteria": "open"}, ["b"]),
        ({"ownerID": "999999999999"}, ["c"]),
        ({"tags": {"team": "b"}, "instanceMatchCriteria": "targeted"}, []),
    ],
    ids=str,
)
def test_ec03_terms_select_reservations(
    provider: Ec2Provider, server: Server, term: dict[str, Any], result: list[str]
) -> None:
    created = {
        "a": reserve(server, tags={"team": "a"}),
        "b": reserve(server, tags={"team": "b"}, criteria="open"),
        "c": reserve(server, owner="999999999999"),
    }
    reserve(server, tags={"team": "a"}, state="cancelled")
    listed = selecting(provider, term).status.capacity_reservations
    assert [item.id for item in listed] == [created[name].id for name in result]


def test_ecs4_the_status_says_what_a_reservation_is(provider: Ec2Provider, server: Server) -> None:
    end = datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=30)
    block = reserve(server, type="m5a.large", state="active", end=end)
    block.type = "capacity-block"
    (listed,) = selecting(provider, {"id": block.id}).status.to_dict()["capacityReservations"]
    assert listed == {
        "id": block.id,
        "availabilityZone": ZONE,
        "instanceType": "m5a.large",
        "instanceMatchCriteria": "targeted",
        "ownerID": block.owner,
        "endTime": end.isoformat().replace("+00:00", "Z"),
        "reservationType": "capacity-block",
        "state": "expiring",
    }


@pytest.mark.parametrize(
    ("minutes", "type_", "leaves"), [(39, "capacity-block", True), (41, "capacity-block", False), (5, "default", False)]
)
def test_aws124_a_capacity_block_is_drained_40_minutes_before_its_end(minutes: int, type_: Any, leaves: bool) -> None:
    result = CapacityReservation(
        id="cr-1",
        availability_zone=ZONE,
        instance_type="m5.large",
        instance_match_criteria="targeted",
        owner_id="1",
        end_time=NOW + timedelta(minutes=minutes),
        reservation_type=type_,
    )
    assert drains(result, NOW) is leaves


def test_aws079_alb19_a_reservation_is_an_offering_with_its_places(provider: Ec2Provider, server: Server) -> None:
    """The labels of reservations depend on the offering, so the type neither has nor excludes them."""
    created = reserve(server, count=3)
    types = provider.instance_types(selecting(provider, {"id": created.id}))
    assert reservation_ids(types) == {created.id}
    result = offered(types)[created.id]
    assert (result.zone, result.capacity_type, result.reservation_capacity) == (ZONE, "reserved", 3)
    assert result.price == pytest.approx(0.096 / 10_000_000)
    by_name = {item.name: item for item in types}
    assert labels.RESERVATION_ID not in by_name["m5.large"].requirements
    assert by_name["m5a.large"].requirements[labels.RESERVATION_ID].is_empty()


def test_aws033_places_are_counted_once_a_minute(
    provider: Ec2Provider, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a plan between two counts gets the same objects, for which the engine remembers its answers."""
    created = reserve(server, count=3)
    selection = selecting(provider, {"id": created.id})
    first = provider.instance_types(selection)
    created.total = 5
    assert provider.instance_types(selection) is first
    provider.count_places()
    assert offered(provider.instance_types(selection))[created.id].reservation_capacity == 5


def test_no_plan_waits_for_a_count_while_the_last_one_is_known(
    provider: Ec2Provider, clients: Ec2, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One slow answer of EC2 must not stop all launches and plans."""
    created, other = reserve(server, count=3), reserve(server, count=1)
    counting = CapacityReservations(clients)
    assert counting.places([created.id])[created.id].remaining == 3
    created.total = 5
    counting.forget()
    requests, answers, count = Event(), Event(), counting.count

    def slow(ids: Collection[str]) -> dict[str, Places]:
        requests.set()
        assert answers.wait(30)
        return count(ids)

    monkeypatch.setattr(counting, "count", slow)
    with ThreadPoolExecutor(3) as threads:
        counts = threads.submit(counting.places, [created.id])
        assert requests.wait(30)
        try:
            assert threads.submit(counting.places, [created.id]).result(30)[created.id].remaining == 3
            unknown = threads.submit(counting.places, [other.id])
        finally:
            answers.set()
        assert counts.result(30)[created.id].remaining == 5
        assert unknown.result(30)[other.id].remaining == 1


def test_a_place_that_is_freed_while_places_are_counted_is_counted_next(
    clients: Ec2, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two nodes that leave together are gone a moment after each other."""
    created = reserve(server, count=1)
    counting = CapacityReservations(clients)
    count = counting.count

    def count_while_a_node_goes(ids: Collection[str]) -> dict[str, Places]:
        counted = count(ids)
        if created.total == 1:
            created.total = 2
            counting.forget()
        return counted

    monkeypatch.setattr(counting, "count", count_while_a_node_goes)
    assert counting.places([created.id])[created.id].remaining == 1
    assert counting.places([created.id])[created.id].remaining == 2
    created.total = 3
    assert counting.places([created.id])[created.id].remaining == 2, "nothing was freed since"


def test_counts_stay_while_ec2_refuses(provider: Ec2Provider, server: Server) -> None:
    from sandbox.ec2.faults import Fault

    created = reserve(server, count=3)
    selection = selecting(provider, {"id": created.id})
    provider.instance_types(selection)
    provider.count_places()
    server.world.faults.add(Fault(action="DescribeCapacityReservations", code="InternalError", status=500, count=None))
    assert offered(provider.instance_types(selection))[created.id].reservation_capacity == 3
    server.world.faults.clear()


def test_counts_of_other_classes_stay_while_ec2_refuses(provider: Ec2Provider, server: Server) -> None:
    """Each class asks for its own reservations, one after the other."""
    from sandbox.ec2.faults import Fault

    item, other = reserve(server, count=3), reserve(server, count=2)
    classes = [selecting(provider, {"id": reservation.id}) for reservation in (item, other)]
    for selection in classes:
        provider.instance_types(selection)
    provider.count_places()
    provider.instance_types(classes[0])
    server.world.faults.add(Fault(action="DescribeCapacityReservations", code="InternalError", status=500, count=None))
    assert offered(provider.instance_types(classes[1]))[other.id].reservation_capacity == 2
    server.world.faults.clear()


def claim(name: str, reservation: str, launched: datetime | None = None, *, leaving: bool = False) -> ClaimRecord:
    ready = {"type": "Launched", "status": "True", "lastTransitionTime": launched.isoformat() if launched else None}
    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if leaving else {}
    return ClaimRecord.of(
        {
            "metadata": {"name": name, "labels": {labels.RESERVATION_ID: reservation}, **deleted},
            "status": {"conditions": [ready] if launched else []},
        }
    )


def test_aws123_a_claim_takes_its_place_until_ec2_counts_it(provider: Ec2Provider, server: Server) -> None:
    """The count of EC2 holds what was launched a while before it, and nothing else."""
    created, other = reserve(server, count=4), reserve(server, type="m5a.large", count=1)
    types = provider.instance_types(selecting(provider, {"id": created.id}, {"id": other.id}))
    counted = datetime.fromtimestamp(offered(types)[created.id].counted_at, UTC)
    claims = [
        claim("waits", created.id),
        claim("just-launched", created.id, counted - timedelta(seconds=2)),
        claim("counted", created.id, counted - timedelta(minutes=5)),
        claim("never-launched", created.id, leaving=True),
        claim("elsewhere", other.id),
    ]
    remaining = offered(without_taken(types, claims))
    assert (remaining[created.id].reservation_capacity, remaining[created.id].available) == (2, True)
    assert (remaining[other.id].reservation_capacity, remaining[other.id].available) == (0, True), (
        "it is full, and healthy"
    )
    assert not remaining[other.id].launchable


def test_aws111_a_launch_goes_into_its_reservation_and_no_other(
    provider: Ec2Provider, server: Server, clients: Ec2
) -> None:
    """AWS-002, AWS-091, LBL-02: the instance, and the labels of its claim, say so."""
    reserve(server, criteria="open")
    created = reserve(server, count=1)
    selection = selecting(provider, {"id": created.id})
    instance = bought(launch(provider, selection, "reserved-1"))
    until_shown(server, instance.id)
    raw = clients.ec2.describe_instances(InstanceIds=[instance.id])["Reservations"][0]["Instances"][0]
    assert (raw["CapacityReservationId"], raw["InstanceType"]) == (created.id, "m5.large")
    assert raw["Placement"]["AvailabilityZone"] == ZONE
    assert instance.capacity_type == "reserved"
    assert instance.price == 0.096, "what EC2 charges; only plans count a place as almost free"
    result = launched_labels({}, instance, None)
    assert result[labels.CAPACITY_TYPE] == "reserved"
    assert result[labels.RESERVATION_ID] == created.id
    assert result[labels.RESERVATION_TYPE] == "default"
    assert result[labels.RESERVATION_INTERRUPTIBLE] == "false"
    assert server.world.reservations.left(created) == 0


def test_aws002_reserved_comes_before_spot_and_spot_before_on_demand(provider: Ec2Provider, server: Server) -> None:
    """Of what the claim allows and what can be bought now."""
    created = reserve(server, count=1)
    selection = selecting(provider, {"id": created.id})
    anywhere = node_claim(("node.kubernetes.io/instance-type", "In", ["m5.large"]), name="prefers")
    bought_as: list[str] = []
    avoided: set[OfferingKey] = set()
    for _ in range(3):
        bought_as.append(provider.prepare_launch(anywhere, selection, 1, avoided).capacity_type)
        avoided |= (
            {OfferingKey("reserved", "", ZONE, "reservation", created.id)}
            if len(avoided) == 0
            else spot_of_m5(provider, selection)
        )
    assert bought_as == ["reserved", "spot", "on-demand"]


def spot_of_m5(provider: Ec2Provider, selection: EC2NodeClass) -> set[OfferingKey]:
    (kind,) = [item for item in provider.instance_types(selection) if item.name == "m5.large"]
    return {OfferingKey("spot", "m5.large", o.zone) for o in kind.offerings if o.capacity_type == "spot"}


def test_aws045_a_full_reservation_is_avoided_and_no_other(provider: Ec2Provider, server: Server) -> None:
    """The refused one alone: another reservation of the same type and zone is used meanwhile."""
    first, second = reserve(server, count=1), reserve(server, count=1)
    selection = selecting(provider, {"id": first.id}, {"id": second.id})
    item = (labels.RESERVATION_ID, "In", [first.id])
    bought(launch(provider, selection, "full-1", item))
    refused = launch(provider, selection, "full-2", item)
    assert refused.instance is None
    assert refused.waits is None, "the claim is deleted, and its pods are planned again"
    avoided = {unavailable.key for unavailable in refused.unavailable}
    assert avoided == {OfferingKey("reserved", "", ZONE, "full-reservation", first.id)}
    marked = offered(provider.instance_types(selection, avoided))
    assert [(marked[created.id].available, marked[created.id].reservation_capacity) for created in (first, second)] == [
        (True, 0),
        (True, 1),
    ]
    assert bought(launch(provider, selection, "full-3", unavailable=avoided)).reservation_id == second.id


def test_n15_401_a_claim_for_a_full_reservation_never_becomes_on_demand(provider: Ec2Provider, server: Server) -> None:
    """EC2 decides, because its answer is newer than the count."""
    created = reserve(server, count=1)
    selection = selecting(provider, {"id": created.id})
    item = (labels.RESERVATION_ID, "In", [created.id])
    bought(launch(provider, selection, "only-1", item))
    provider.count_places()
    refused = launch(provider, selection, "only-2", item)
    assert (refused.instance, refused.waits) == (None, None)


def test_a_reservation_that_ended_since_the_plan_is_avoided(provider: Ec2Provider, server: Server) -> None:
    created = reserve(server)
    selection = selecting(provider, {"id": created.id})
    server.world.reservations.end(created.id)
    refused = launch(provider, selection, "ended-1")
    assert refused.waits is None
    assert [item.key for item in refused.unavailable] == [OfferingKey("reserved", "", ZONE, "reservation", created.id)]


@pytest.mark.parametrize(
    ("fields", "target", "kinds"),
    [
        ({}, "on-demand", ("default", "false")),
        ({"type": "capacity-block"}, "capacity-block", ("capacity-block", "false")),
        ({"interruptible": True}, "reserved-capacity", ("default", "true")),
    ],
    ids=["on-demand", "block", "interruptible"],
)
def test_aws004_aws111_each_kind_of_reservation_has_its_request(
    provider: Ec2Provider, server: Server, fields: dict[str, Any], target: str, kinds: tuple[str, str]
) -> None:
    """EC2 refuses a request of another kind."""
    created = server.world.reservations.create(instance_type="m5.large", zone=ZONE, total=1, **fields)
    instance = bought(launch(provider, selecting(provider, {"id": created.id}), f"kind-{target}"))
    assert instance.reservation_id == created.id
    result = launched_labels({}, instance, None)
    assert (result[labels.RESERVATION_TYPE], result[labels.RESERVATION_INTERRUPTIBLE]) == kinds
    requests = server.world.calls.listing("CreateFleet")[-1]["parameters"]
    assert requests["TargetCapacitySpecification.DefaultTargetCapacityType"] == target


def test_aws021_aws023_one_request_is_for_one_kind_and_the_roomiest_of_a_zone(
    provider: Ec2Provider, server: Server
) -> None:
    reserve(server, interruptible=True, count=9)
    small, roomy = reserve(server, count=1), reserve(server, count=5)
    elsewhere = reserve(server, count=1, zone="us-west-2b")
    selection = selecting(provider, {"ownerID": small.owner})
    request = provider.prepare_launch(node_claim(RESERVED, name="kinds"), selection, 1)
    names = {row.reservation_id for template in request.templates for row in template.overrides}
    assert names == {roomy.id, elsewhere.id}
    assert len(request.templates) == 2
    assert (request.reservation_type, request.reservation_interruptible) == ("default", False)


def test_n15_402_full_blocks_and_reservations_leave_the_launch_to_what_has_places(
    provider: Ec2Provider, server: Server
) -> None:
    """With no block that has a place, other reservations stay, and with none of these, other capacity types."""
    block = server.world.reservations.create(instance_type="m5.large", zone=ZONE, total=0, type="capacity-block")
    plain = reserve(server, type="m5.xlarge", count=1)
    selection = selecting(provider, {"id": block.id}, {"id": plain.id})
    anything = node_claim(name="anything")
    request = provider.prepare_launch(anything, selection, 1)
    assert (request.capacity_type, request.reservation_type) == ("reserved", "default")
    full = {OfferingKey.of_full_reservation("reserved", ZONE, plain.id)}
    assert provider.prepare_launch(anything, selection, 1, full).capacity_type == "spot"


def test_aws022_of_capacity_blocks_one_is_asked_for(provider: Ec2Provider, server: Server) -> None:
    for type_ in ("m5.large", "m5a.large"):
        server.world.reservations.create(instance_type=type_, zone=ZONE, total=1, type="capacity-block")
    selection = selecting(provider, {"instanceMatchCriteria": "targeted"})
    request = provider.prepare_launch(node_claim(RESERVED, name="blocks"), selection, 1)
    assert len([row for template in request.templates for row in template.overrides]) == 1


def test_aws123_without_the_gate_reservations_are_left_to_ec2(
    provider: Ec2Provider, clients: Ec2, server: Server
) -> None:
    """No offering, no condition, and EC2's own default: an open reservation that matches."""
    created = reserve(server, criteria="open", count=1)
    off = Ec2Provider(clients, provider.cluster, reserved_capacity=False)
    selection = selecting(off, {"id": created.id})
    assert selection.status.capacity_reservations == []
    assert reservation_ids(off.instance_types(selection)) == frozenset()
    terms = [
        ("karpenter.sh/capacity-type", "In", ["on-demand"]),
        ("node.kubernetes.io/instance-type", "In", ["m5.large"]),
        ("topology.kubernetes.io/zone", "In", [ZONE]),
    ]
    request = provider.prepare_launch(node_claim(*terms, name="gate-on"), selection, 1)
    assert bought(provider.launch(request)).capacity_type == "on-demand"
    assert server.world.reservations.left(created) == 1, "with the gate, what nobody selected is not used"
    request = off.prepare_launch(node_claim(*terms, name="gate-off"), selection, 1)
    by_chance = bought(off.launch(request))
    assert by_chance.capacity_type == "on-demand"
    assert server.world.reservations.left(created) == 0
    until_shown(server, by_chance.id)
    adopted = provider.describe_instance(by_chance.id)
    assert adopted is not None
    assert (adopted.capacity_type, adopted.reservation_id, adopted.reservation_type) == ("on-demand", "", "")
    assert adopted.price == by_chance.price, "it is not a place of a reservation that a NodePool chose"


@pytest.mark.parametrize(
    ("asked_for", "reservation"),
    [
        ({"CapacityReservationPreference": "open"}, ""),
        ({}, ""),
        (None, ""),
        ({"CapacityReservationPreference": "capacity-reservations-only"}, "cr-1"),
        ({"CapacityReservationTarget": {"CapacityReservationId": "cr-1"}}, "cr-1"),
        ({"CapacityReservationTarget": {"CapacityReservationResourceGroupArn": "arn:aws:resource-groups:1"}}, ""),
    ],
    ids=str,
)
def test_aws123_an_instance_is_reserved_only_if_its_launch_asked_for_it(asked_for: Any, reservation: str) -> None:
    """Also one of Karpenter that Tenon adopts. A group of reservations is no selector of an EC2NodeClass."""
    assert (
        launched_into({"CapacityReservationId": "cr-1", "CapacityReservationSpecification": asked_for}) == reservation
    )


def test_aws126_an_instance_leaves_a_reservation_that_is_cancelled(provider: Ec2Provider, server: Server) -> None:
    created = reserve(server)
    instance = bought(launch(provider, selecting(provider, {"id": created.id}), "leaves-1"))
    until_shown(server, instance.id)
    assert provider.reservations([instance.id, "i-0123456789abcdef0"]) == {instance.id: created.id}
    server.world.reservations.end(created.id)
    assert provider.reservations([instance.id]) == {instance.id: ""}
    result = provider.describe_instance(instance.id)
    assert result is not None
    assert result.capacity_type == "on-demand"


def test_act01_a_class_that_selects_reservations_is_resolved_every_minute(
    provider: Ec2Provider, ready_class: EC2NodeClass
) -> None:
    selects = node_class(capacityReservationSelectorTerms=[{"id": "cr-1"}])
    assert provider.refresh_seconds(selects) == capacity_reservations.COUNT_SECONDS == 60
    assert provider.refresh_seconds(ready_class) == 600


def test_ecs7_a_refused_call_is_a_finding_of_the_class(provider: Ec2Provider, server: Server) -> None:
    from sandbox.ec2.faults import Fault

    server.world.faults.add(Fault(action="DescribeCapacityReservations", code="UnauthorizedOperation", status=403))
    result = {item.type: item for item in selecting(provider, {"id": "cr-1"}).status.conditions}
    assert result["CapacityReservationsReady"].reason == "Unauthorized"
    assert "ec2:DescribeCapacityReservations" in result["CapacityReservationsReady"].message
