"""What the record says: cost over time, and what happened by whom."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.kube.timestamps import format_instant
from tenon.page.time_axis import Axis, axis_of
from tenon.record.entries import CostEntry, CostRow, Entry, PlanEntry
from tenon.report.happened import COMMANDS, UNKNOWN_ACTOR, happened
from tenon.report.report import report_on
from tenon.report.slimming import slim
from tenon.report.spending import lower_bounds, spending
from tests.tenon.report.clusters import NOW, Cluster, command, command_end, facts, launch, refusal, removal, waited
from tests.tenon.report.stories import busy_cluster, busy_week

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
WEEK = timedelta(days=7)


def test_a_removed_node_costs_its_price_while_it_ran() -> None:
    entries: list[Entry] = [launch(1, NOW - 10 * HOUR), removal(1, NOW - 10 * HOUR, NOW - 4 * HOUR)]
    costs = spending(entries, [])
    assert costs.cost(NOW - DAY, NOW) == pytest.approx(6 * 0.096)
    assert costs.cost(NOW - 8 * HOUR, NOW - 6 * HOUR) == pytest.approx(2 * 0.096)
    assert costs.by_pool(NOW - DAY, NOW) == {"web": pytest.approx(6 * 0.096)}


def test_a_node_that_was_launched_before_the_window_counts_from_its_start() -> None:
    costs = spending([removal(1, NOW - 30 * DAY, NOW - 4 * HOUR)], [])
    assert costs.cost(NOW - DAY, NOW) == pytest.approx(20 * 0.096)


def test_live_nodes_cost_until_now_with_or_without_their_launch_in_the_record() -> None:
    cluster = Cluster()
    cluster.node("web", "m5.xlarge", age=10 * HOUR)
    costs = spending([], cluster.live().nodes)
    assert costs.cost(NOW - DAY, NOW) == pytest.approx(10 * 0.192)
    assert costs.unpriced == 0


def test_a_node_whose_instance_terminates_costs_nothing_more() -> None:
    cluster = Cluster()
    ends = {"type": "InstanceTerminating", "status": "True", "lastTransitionTime": format_instant(NOW - 4 * HOUR)}
    cluster.node("web", "m5.xlarge", age=10 * HOUR, conditions=[ends])
    assert spending([], cluster.live().nodes).cost(NOW - DAY, NOW) == pytest.approx(6 * 0.192)


def test_a_warm_node_costs_nothing_while_it_is_stopped() -> None:
    """Also if it has started since, or is gone."""
    stop = f"{format_instant(NOW - 9 * HOUR)}/"
    started = f"{stop}{format_instant(NOW - 2 * HOUR)}"
    cluster = Cluster()
    for marks in ({labels.WARM: "stopped", labels.STOPPED_TIMES: stop}, {labels.STOPPED_TIMES: started}):
        annotations = {labels.LAUNCH_PRICE: "0.192", **marks}
        cluster.node("web", "m5.xlarge", age=10 * HOUR, meta={"annotations": annotations})
    ended_node = removal(1, NOW - 10 * HOUR, NOW).model_copy(update={"stopped": stop})
    costs = spending([ended_node], cluster.live().nodes)
    assert costs.cost(NOW - DAY, NOW) == pytest.approx(0.192 + 3 * 0.192 + 0.096)
    assert costs.cost(NOW - 8 * HOUR, NOW - 3 * HOUR) == 0
    assert costs.unpriced == 0


def test_an_instance_without_a_price_that_was_stopped_is_one() -> None:
    ended_node = removal(1, NOW - 10 * HOUR, NOW, price=0.0)
    stop = f"{format_instant(NOW - 9 * HOUR)}/{format_instant(NOW - 2 * HOUR)}"
    assert spending([ended_node.model_copy(update={"stopped": stop})], []).unpriced == 1


def test_the_cost_is_divided_among_namespaces_as_the_record_says() -> None:
    rows = [CostRow(pool="web", namespace="shop", of="pods", cost=3.0), CostRow(pool="web", of="idle", cost=1.0)]
    sample = CostEntry(id="cost", at=NOW - 2 * HOUR, cluster="prod", since=NOW - 4 * HOUR, samples=1, rows=rows)
    entries: list[Entry] = [removal(1, NOW - 4 * HOUR, NOW), sample]
    costs = spending(entries, [])
    assert costs.by_namespace(entries, NOW - DAY, NOW) == {
        "(unmeasured)": pytest.approx(2 * 0.096),
        "shop": pytest.approx(1.5 * 0.096),
        "(idle)": pytest.approx(0.5 * 0.096),
    }
    assert costs.by_namespace([], NOW - DAY, NOW) == {}


def test_entries_are_kept_without_what_no_report_shows() -> None:
    rows = [
        CostRow(pool="web", namespace="shop", workload=workload, of="pods", cost=cost)
        for workload, cost in (("Deployment/api", 1.0), ("Deployment/web", 2.0))
    ]
    sample = CostEntry(id="cost", at=NOW, cluster="prod", since=NOW - HOUR, samples=1, rows=rows, lower_bound=0.5)
    slimmed = slim(sample)
    assert isinstance(slimmed, CostEntry)
    assert [(row.namespace, row.workload, row.cost) for row in slimmed.rows] == [("shop", "", 3.0)]
    ended_node = removal(1, NOW - DAY, NOW - HOUR).model_copy(update={"timeline": ["a line"] * 20})
    plan = PlanEntry(id="plan", at=NOW - HOUR, cluster="prod", batch=1, pods=3, on_existing={"n": ["a/b"] * 1000})
    entries: list[Entry] = [ended_node, plan, launch(2, NOW - HOUR)]
    kept_entries = [slim(entry) for entry in entries]
    assert "a line" not in str(kept_entries)
    assert "a/b" not in str(kept_entries)
    assert happened(kept_entries, NOW - DAY, NOW).actors == happened(entries, NOW - DAY, NOW).actors


def test_the_lower_bound_is_that_of_each_interval_of_the_record() -> None:
    def sample(hours: float, bound: float | None) -> CostEntry:
        at = NOW - hours * HOUR
        return CostEntry(id=f"cost/{hours}", at=at, cluster="prod", since=at - HOUR, samples=1, lower_bound=bound)

    axis = Axis(NOW - 6 * HOUR, HOUR, 6)
    bounds = lower_bounds([sample(0.5, 3.0), sample(3.5, 1.0), sample(1.5, None), sample(9, 7.0)], axis)
    assert bounds == [None, 1.0, 1.0, None, 3.0, 3.0]


def test_launches_that_vanished_and_nodes_without_a_price_are_named() -> None:
    costs = spending([launch(1, NOW - 5 * HOUR), removal(2, NOW - 3 * HOUR, NOW - HOUR, price=0.0)], [])
    assert costs.bill.endless == ["i-old1"]
    assert costs.unpriced == 1


@given(
    st.lists(st.tuples(st.integers(0, 8 * 24 * 3600), st.integers(1, 3 * 24 * 3600)), max_size=12),
    st.integers(2, 200),
)
def test_the_line_adds_up_to_the_cost_of_the_window(lives: list[tuple[int, int]], buckets: int) -> None:
    entries: list[Entry] = []
    for number, (ago, seconds) in enumerate(lives):
        start = NOW - timedelta(seconds=ago)
        entries.append(removal(number, start, min(NOW, start + timedelta(seconds=seconds))))
    costs = spending(entries, [])
    axis = axis_of(NOW - WEEK, NOW, buckets)
    bounds = [min(max(axis.start_of(number), NOW - WEEK), NOW) for number in range(axis.count + 1)]
    line = costs.an_hour(axis, NOW - WEEK, NOW)
    hours = [(end - start) / HOUR for start, end in pairwise(bounds)]
    total = sum(value * length for value, length in zip(line, hours, strict=True) if value is not None)
    assert total == pytest.approx(costs.cost(NOW - WEEK, NOW), abs=1e-6)


def test_before_the_record_begins_the_cost_is_not_known_although_a_node_is_older() -> None:
    cluster = Cluster()
    cluster.node("web", "m5.xlarge", age=timedelta(days=30))
    yesterday = NOW - timedelta(days=1)
    past = report_on(cluster.live(), [removal(1, yesterday, yesterday)], WEEK).past
    assert past is not None
    assert past.recorded_since == yesterday
    assert past.an_hour[0] is None


def test_before_the_first_node_of_a_young_cluster_the_cost_is_not_known() -> None:
    cluster = Cluster()
    cluster.node("web", "m5.xlarge", age=timedelta(minutes=30))
    past = report_on(cluster.live(), [], WEEK).past
    assert past is not None
    assert past.recorded_since == NOW - timedelta(minutes=30)
    assert set(past.an_hour[:-1]) == {None}, "six days of $0 would be a lie"
    assert past.an_hour[-1] == pytest.approx(0.192)
    nothing = report_on(Cluster().live(), [], WEEK).past
    assert nothing is not None
    assert set(nothing.an_hour) == {None}


def test_removals_are_counted_by_reason_with_their_pods_and_cost() -> None:
    entries: list[Entry] = [
        removal(1, NOW - 5 * HOUR, NOW - HOUR, "Empty", pods=2),
        removal(2, NOW - 9 * HOUR, NOW - HOUR, "empty", pods=1),
        removal(3, NOW - 9 * HOUR, NOW - 2 * HOUR, "Drifted"),
        removal(4, NOW - 30 * HOUR, NOW - 26 * HOUR, "Expired"),
    ]
    day = happened(entries, NOW - DAY, NOW)
    assert [(group.key, group.count, group.pods) for group in day.removed] == [(("Empty",), 2, 3), (("Drifted",), 1, 0)]
    assert day.removed[0].dollars == pytest.approx(12 * 0.096)
    assert day.removed[0].seconds == 12 * 3600
    assert len(happened(entries, NOW - WEEK, NOW).removals) == 4


def test_a_claim_that_never_had_an_instance_is_no_removed_node() -> None:
    """EC2 refused its launch, for example."""
    without = {"launched_at": None, "facts": facts(2).model_copy(update={"instance": "", "node": ""})}
    probe = removal(2, NOW - HOUR, NOW, "Deleted").model_copy(update=without)
    result = happened([removal(1, NOW - DAY, NOW - HOUR), probe], NOW - DAY, NOW)
    assert [entry.facts.claim for entry in result.removals] == [facts(1).claim]
    assert [group.key for group in result.removed] == [("Empty",)]
    assert [entry.facts.claim for entry in result.unlaunched] == [facts(2).claim]
    assert {group.key[1] for group in result.actors} == {"removal: Empty", "end before launch: Deleted"}


def test_drains_that_waited_are_counted_by_what_kept_them() -> None:
    cart, do_not_disrupt = "PodDisruptionBudget shop/cart", "annotation karpenter.sh/do-not-disrupt"
    entries: list[Entry] = [
        removal(1, NOW - 5 * HOUR, NOW - HOUR, blocked_by=[waited(50), waited(5, do_not_disrupt)]),
        removal(2, NOW - 9 * HOUR, NOW - HOUR, blocked_by=[waited(90)]),
        removal(3, NOW - 9 * HOUR, NOW - 2 * HOUR),
        removal(4, NOW - 50 * HOUR, NOW - 26 * HOUR, blocked_by=[waited(10, at=NOW - 26 * HOUR)]),
    ]
    week, day = happened(entries, NOW - WEEK, NOW), happened(entries, NOW - DAY, NOW)
    assert [(group.key, group.count, group.seconds) for group in week.drain_blockers] == [
        ((cart,), 3, 150 * 60),
        ((do_not_disrupt,), 1, 300),
    ]
    assert [group.count for group in day.drain_blockers] == [2, 1]
    assert [(entry.id, block.seconds) for entry, block in week.blocked_drains] == [
        ("removal/2", 5400),
        ("removal/1", 3000),
        ("removal/4", 600),
        ("removal/1", 300),
    ]


@pytest.mark.parametrize(
    ("reason", "is_interruption"),
    [
        ("SpotInterrupted", True),
        ("spot_interrupted", True),
        ("InstanceTerminated", True),
        ("SystemStatus", True),
        ("RebalanceRecommendation", False),
        ("Empty", False),
        ("Deleted", False),
    ],
)
def test_interruptions_are_what_ec2_did(reason: str, is_interruption: bool) -> None:
    result = happened([removal(1, NOW - DAY, NOW - HOUR, reason)], NOW - DAY, NOW)
    assert bool(result.interruptions) is is_interruption


def test_refusals_are_counted_by_code_and_offering() -> None:
    entries: list[Entry] = [
        refusal(1, NOW - HOUR, "InsufficientInstanceCapacity", "spot a us-1", "spot b us-1"),
        refusal(2, NOW - 2 * HOUR, "InsufficientInstanceCapacity", "spot a us-1"),
        refusal(3, NOW - HOUR, "NodeClassNotReady"),
    ]
    result = happened(entries, NOW - DAY, NOW)
    assert [(group.key, group.count, group.last_at) for group in result.refused] == [
        (("InsufficientInstanceCapacity", "spot a us-1"), 2, NOW - HOUR),
        (("InsufficientInstanceCapacity", "spot b us-1"), 1, NOW - HOUR),
        (("NodeClassNotReady", "any offering of NodePool web"), 1, NOW - HOUR),
    ]


def test_a_command_and_its_end_are_one_row() -> None:
    entries: list[Entry] = [
        command(1, NOW - 2 * HOUR),
        command_end(1, NOW - HOUR, reached=0.05),
        command(2, NOW - HOUR),
        command_end(3, NOW - HOUR, failure="no capacity", reached=None),
        command(4, NOW - 3 * HOUR),
        command_end(4, NOW - HOUR, accepted=["a"], refused={"b": "it has a pod"}, reached=None),
    ]
    result = happened(entries, NOW - DAY, NOW)
    outcomes = {carried.command: (carried.outcome, carried.predicted, carried.reached) for carried in result.commands}
    assert outcomes == {
        "c1": ("carried out", 0.096, 0.05),
        "c2": ("under way", 0.096, None),
        "c3": ("undone: no capacity", 0.096, None),
        "c4": ("1 left; b stayed: it has a pod", 0.096, None),
    }
    assert (result.predicted_saving, result.reached_saving) == (0.096, 0.05), "only what was measured is compared"


def test_the_same_command_twice_is_two_rows() -> None:
    again = command(1, NOW - HOUR).model_copy(update={"id": "command/prod/c1/r2"})
    assert len(happened([command(1, NOW - 2 * HOUR), again], NOW - DAY, NOW).commands) == 2


def test_people_are_told_apart_and_commands_are_one_actor() -> None:
    entries: list[Entry] = [
        removal(1, NOW - DAY, NOW - HOUR, "Drain", actor="ann with tenon node"),
        removal(2, NOW - DAY, NOW - HOUR, actor="command empty-1"),
        removal(3, NOW - DAY, NOW - 2 * HOUR, actor="command empty-2"),
        launch(4, NOW - HOUR, actor=""),
    ]
    result = happened(entries, NOW - DAY, NOW)
    assert [(*group.key, group.count, group.last_at) for group in result.actors] == [
        (COMMANDS, "removal: Empty", 2, NOW - HOUR),
        ("ann with tenon node", "removal: Drain", 1, NOW - HOUR),
        (UNKNOWN_ACTOR, "launch", 1, NOW - HOUR),
    ]


def test_the_last_day_is_a_part_of_the_window() -> None:
    report = report_on(busy_cluster().live(), busy_week(), WEEK)
    assert report.past is not None
    assert len(report.past.day.launches) < len(report.past.whole.launches)
    assert report.past.cost(NOW - DAY) < report.past.cost(NOW - WEEK)
    short = report_on(busy_cluster().live(), busy_week(), 6 * HOUR)
    assert short.past is not None
    assert short.past.day.since == short.past.whole.since == NOW - 6 * HOUR


def test_without_a_record_there_is_no_past() -> None:
    assert report_on(busy_cluster().live(), None, WEEK).past is None
