"""ENABLE_ZONAL_SHIFT: nothing is launched into a zone while ARC shifts the cluster away from it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from threading import Event
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from activities.ec2.client import Ec2
from activities.ec2.cluster import describe_cluster
from activities.ec2.errors import InsufficientCapacityError
from activities.ec2.provider import Ec2Provider
from activities.ec2.zonal_shifts import FIRST_RETRY_SECONDS, POLL_SECONDS, ZonalShifts
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.ec2.instances.zonal_shifts import shifted_zones
from tenon.kube.offerings import OfferingKey
from tests.ec2.samples import node_claim

if TYPE_CHECKING:
    from sandbox.ec2.server import Server

pytestmark = pytest.mark.integration

HERE = ("topology.kubernetes.io/zone", "In", ["us-west-2a"])


@pytest.fixture
def shifting(clients: Ec2, server: Server) -> Iterator[Ec2Provider]:
    yield Ec2Provider(clients, describe_cluster(clients, "sandbox"), zonal_shift=True)
    server.world.zonal_shifts.clear()


def zone_id(node_class: EC2NodeClass) -> str:
    return next(subnet.zone_id or "" for subnet in node_class.status.subnets if subnet.zone == "us-west-2a")


def sold_in(provider: Ec2Provider, node_class: EC2NodeClass) -> set[str]:
    return {
        o.zone for instance_type in provider.instance_types(node_class) for o in instance_type.offerings if o.available
    }


@pytest.mark.parametrize("auto", [False, True], ids=["by hand", "autoshift"])
def test_aws016_act15_a_shifted_zone_gets_no_new_node(
    shifting: Ec2Provider, server: Server, ready_class: EC2NodeClass, auto: bool
) -> None:
    """While the shift lasts: neither plans nor launches use it, also not those that were planned before."""
    before = sold_in(shifting, ready_class)
    assert "us-west-2a" in before
    zones = server.world.zonal_shifts.by_arc if auto else server.world.zonal_shifts.by_hand
    zones.add(zone_id(ready_class))
    shifting.ask_zones()
    assert shifting.shifted_zones() == {zone_id(ready_class)}
    assert sold_in(shifting, ready_class) == before - {"us-west-2a"}
    request = shifting.prepare_launch(node_claim(name="away-1"), ready_class, 1)
    assert "us-west-2a" not in {row.zone for template in request.templates for row in template.overrides}
    planned_before = list(Ec2Provider.instance_types(shifting, ready_class))
    with pytest.raises(InsufficientCapacityError):
        shifting.prepare_launch(node_claim(HERE, name="away-2"), ready_class, 1, types=planned_before)
    zones.clear()
    shifting.ask_zones()
    assert sold_in(shifting, ready_class) == before


def test_aws016_arc_is_asked_twice_a_minute(clients: Ec2, server: Server) -> None:
    now = [0.0]
    zonal = ZonalShifts(clients, "sandbox", lambda: now[0])
    assert zonal.away() == frozenset()
    server.world.zonal_shifts.by_hand.add("usw2-az1")
    try:
        now[0] = 29.9
        assert zonal.away() == frozenset()
        now[0] = 30.0
        assert zonal.away() == {"usw2-az1"}
    finally:
        server.world.zonal_shifts.clear()


def test_what_is_known_stays_while_arc_refuses(
    shifting: Ec2Provider, server: Server, ready_class: EC2NodeClass
) -> None:
    from sandbox.ec2.faults import Fault

    server.world.zonal_shifts.by_hand.add(zone_id(ready_class))
    assert shifting.shifted_zones() == {zone_id(ready_class)}
    server.world.faults.add(Fault(action="GetManagedResource", code="InternalServerException", status=500, count=None))
    server.world.zonal_shifts.clear()
    shifting.ask_zones()
    assert shifting.shifted_zones() == {zone_id(ready_class)}


@pytest.mark.refuses("arc-zonal-shift:GetManagedResource")
def test_aws016_a_refusal_of_arc_is_known_until_arc_answers(shifting: Ec2Provider, server: Server) -> None:
    assert shifting.shifted_zones() == frozenset()
    assert shifting.refused_zones() == ""
    server.world.judge.replace("sandbox", '{"Version": "2012-10-17", "Statement": []}')
    shifting.ask_zones()
    shifting.shifted_zones()
    assert "allow arc-zonal-shift:GetManagedResource" in shifting.refused_zones()
    server.world.judge.replace("sandbox", None)
    shifting.ask_zones()
    shifting.shifted_zones()
    assert shifting.refused_zones() == ""


def test_set28_without_the_setting_arc_is_not_asked(
    provider: Ec2Provider, server: Server, ready_class: EC2NodeClass
) -> None:
    server.world.zonal_shifts.by_hand.add(zone_id(ready_class))
    assert "us-west-2a" in sold_in(provider, ready_class)
    assert server.world.calls.listing("GetManagedResource") == []
    server.world.zonal_shifts.clear()


def test_a_shift_that_is_not_applied_counts_for_nothing() -> None:
    shifts = [
        {"awayFrom": "usw2-az1", "appliedStatus": "NOT_APPLIED"},
        {"awayFrom": "usw2-az2", "appliedStatus": "APPLIED"},
    ]
    autoshifts = [{"awayFrom": "usw2-az3", "appliedStatus": "APPLIED"}]
    assert shifted_zones({"zonalShifts": shifts, "autoshifts": autoshifts}) == {"usw2-az2", "usw2-az3"}
    assert shifted_zones({}) == frozenset()


def test_types_stay_the_same_objects_while_a_shift_lasts(
    shifting: Ec2Provider, server: Server, ready_class: EC2NodeClass
) -> None:
    """The engine remembers its answers by object. Refusals of EC2 change only the types that they name."""
    server.world.zonal_shifts.by_hand.add(zone_id(ready_class))
    shifting.ask_zones()
    first = shifting.instance_types(ready_class)
    again = shifting.instance_types(ready_class, frozenset({OfferingKey("on-demand", "m5.large", "us-west-2b")}))
    changed = [item.name for item, other in zip(first, again, strict=True) if item is not other]
    assert changed == ["m5.large"]
    shifting.prepare_launch(node_claim(name="same-1"), ready_class, 1, types=first)
    assert all(item is other for item, other in zip(first, shifting.instance_types(ready_class), strict=True))


class Arc:
    """Answers with a shift away from one zone, or fails, for a `ZonalShifts` with a clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked_at: list[float] = []
        self.error: Exception | None = None
        clients = SimpleNamespace(
            zonal_shift=SimpleNamespace(get_managed_resource=self._answer),
            region="us-west-2",
            eks=SimpleNamespace(describe_cluster=lambda **_: {"cluster": {"arn": "arn"}}),
        )
        self.zonal = ZonalShifts(cast("Any", clients), "sandbox", lambda: self.now)

    def _answer(self, **_: object) -> dict[str, Any]:
        self.asked_at.append(self.now)
        if self.error is not None:
            raise self.error
        return {"zonalShifts": [{"awayFrom": "usw2-az1", "appliedStatus": "APPLIED"}]}

    def away_at(self, now: float) -> frozenset[str]:
        self.now = now
        return self.zonal.away()


def test_aws016_a_first_question_that_fails_is_asked_again_within_seconds() -> None:
    """No zone counts as shifted until then, so a worker that has just started would launch into one that fails."""
    arc = Arc()
    arc.error = BotoCoreError()
    assert arc.away_at(0.0) == frozenset()
    assert arc.away_at(FIRST_RETRY_SECONDS - 1) == frozenset()
    arc.error = None
    assert arc.away_at(FIRST_RETRY_SECONDS) == {"usw2-az1"}
    arc.error = BotoCoreError()
    for seconds in range(100):
        assert arc.away_at(100.0 + seconds) == {"usw2-az1"}
    assert arc.asked_at == [0.0, FIRST_RETRY_SECONDS, 100.0, 130.0, 160.0, 190.0], "as often as if it answered"


def test_aws016_an_arc_that_never_answers_or_refuses_is_not_asked_all_the_time() -> None:
    arc = Arc()
    arc.error = BotoCoreError()
    for seconds in range(300):
        arc.away_at(float(seconds))
    pauses = [later - earlier for earlier, later in pairwise(arc.asked_at)]
    assert pauses[:3] == [FIRST_RETRY_SECONDS, 2 * FIRST_RETRY_SECONDS, 4 * FIRST_RETRY_SECONDS]
    assert pauses[-1] == max(pauses) == POLL_SECONDS
    refused = Arc()
    refused.error = ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "GetManagedResource")
    for seconds in range(60):
        refused.away_at(float(seconds))
    assert refused.asked_at == [0.0, POLL_SECONDS]


def test_no_plan_waits_for_arc_while_its_last_answer_is_known() -> None:
    """One slow answer must not stop all launches and plans."""
    event, answers = Event(), Event()
    shifts = [{"awayFrom": "usw2-az1", "appliedStatus": "APPLIED"}]

    def slow(**_: object) -> dict[str, Any]:
        if not shifts:
            event.set()
            assert answers.wait(30)
        return {"zonalShifts": shifts}

    clients = SimpleNamespace(
        region="us-west-2",
        zonal_shift=SimpleNamespace(get_managed_resource=slow),
        eks=SimpleNamespace(describe_cluster=lambda **_: {"cluster": {"arn": "arn"}}),
    )
    zonal = ZonalShifts(cast("Any", clients), "sandbox")
    assert zonal.away() == {"usw2-az1"}
    shifts.clear()
    zonal.forget()
    with ThreadPoolExecutor(2) as threads:
        asks = threads.submit(zonal.away)
        assert event.wait(30)
        try:
            assert threads.submit(zonal.away).result(30) == {"usw2-az1"}
        finally:
            answers.set()
        assert asks.result(30) == frozenset()
    assert zonal.away() == frozenset()
