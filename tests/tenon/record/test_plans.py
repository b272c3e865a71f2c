"""The entry of a plan stays one line that readers accept, however many pods the plan is for."""

from __future__ import annotations

from datetime import UTC, datetime

from tenon.kube.offerings import OfferingKey
from tenon.kube.pod import Pod
from tenon.kube.pool_reasons import Clause, NoPlace, Obstacle, ObstacleKind
from tenon.kube.requirements import Requirements
from tenon.messages.explanation import Explanation
from tenon.record.entries import MAX_LISTED
from tenon.record.lines import MAX_LINE, line_of
from tenon.record.origin import Origin
from tenon.record.plans import plan_entry
from tenon.record.room import EntryRoom
from tenon.scheduling.model import Plan, PlannedClaim
from tests.tenon.scheduling.builders import replicas

AT = datetime(2026, 11, 27, 6, 0, tzinfo=UTC)
OFFERING = OfferingKey("on-demand", "m5.large", "us-west-2a")


def planned(pods: list[Pod]) -> PlannedClaim:
    return PlannedClaim("default", tuple(pods), ("m5.large",), Requirements(), {}, 0.096, OFFERING)


def test_the_entry_of_a_plan_for_a_hundred_thousand_pods_is_short_and_its_counts_are_complete() -> None:
    claims = [planned(replicas(40, prefix=f"{'long-name-' * 8}{number}")) for number in range(2000)]
    reason = NoPlace(tuple(Clause(f"pool-{n}", (Obstacle(ObstacleKind.REQUESTS, "x" * 3000),)) for n in range(6)))
    unschedulable = {f"default/{'u' * 200}-{number}": reason for number in range(20_000)}
    placements = {f"node-{number}": tuple(replicas(10, prefix=f"p{number}")) for number in range(2000)}
    entry = plan_entry(
        Origin("prod"),
        AT,
        Plan(tuple(claims), placements, unschedulable),
        batch=1,
        claims=[f"default-{number}" for number in range(2000)],
        explanations=[Explanation(choice="y" * 1500)] * 2000,
        pods=120_000,
        decision="d",
    )
    assert len(line_of(entry)) < MAX_LINE
    assert (entry.pods, entry.purchase_count, entry.placed_count, entry.unschedulable_count) == (
        120_000,
        2000,
        20_000,
        20_000,
    )
    assert len(entry.purchases) == MAX_LISTED
    assert entry.purchases[0].pod_count == len(entry.purchases[0].pods) == 40


def test_pods_of_capacity_buffers_are_not_named() -> None:
    """They do not exist in the cluster."""
    pods = [*replicas(1), *replicas(2, prefix="room", buffer="spare")]
    plan = Plan((planned(pods),), {"n1": tuple(replicas(1, prefix="b", buffer="spare"))})
    why = Explanation(headroom="room for 2 pods of CapacityBuffers", pods="1 pod: default/p-0", price="a price")
    entry = plan_entry(
        Origin("prod"), AT, plan, batch=1, claims=["default-1"], explanations=[why], pods=1, decision="d"
    )
    assert (entry.purchases[0].pods, entry.purchases[0].pod_count) == (["default/p-0"], 1)
    assert entry.purchases[0].why.lines == (why.headroom,), "pods and price have fields of their own"
    assert (entry.on_existing, entry.placed_count) == ({}, 0)


def test_room_goes_to_what_comes_first() -> None:
    room = EntryRoom(30)
    assert room.names(["a" * 10, "b" * 10, "c" * 10]) == ["a" * 10, "b" * 10]
    assert room.text("no room for this") == ""
