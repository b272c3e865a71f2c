"""The annotations of a NodePool that hold consolidation back: the least saving, and the rest after a move."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activities import metrics
from activities.disruption.decision_metrics import measure_closed_destinations
from tenon.apis import labels
from tenon.apis.consolidation_limits import LeastSaving, read_least_saving, read_rest
from tenon.apis.reasons import Reason
from tenon.apis.shortage_price import DEFAULT_FACTOR, price_factor, read_price_factor, waits_in_shortage
from tenon.apis.validation import check_nodepool
from tenon.disruption.deciding import decide
from tenon.disruption.decision import Decision
from tenon.disruption.methods.consolidation import Consolidation
from tenon.disruption.pool_policy import policy_of
from tests.activities.provisioning.fake_view import node_pool
from tests.tenon.disruption.clusters import NOW, Cluster, NodeSpec, PodSpec, PoolSpec, findings, situation
from tests.tenon.disruption.random_clusters import clusters

SMALL = PodSpec(cpu="100m", memory="128Mi")


def decided(cluster: Cluster) -> Decision:
    decision = decide(situation(cluster), [Consolidation()])
    for error in decision.failed.values():
        raise error
    return decision


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.05", LeastSaving(dollars=0.05)),
        ("$2", LeastSaving(dollars=2)),
        ("5%", LeastSaving(share=0.05)),
        ("0.05, 12.5%", LeastSaving(0.05, 0.125)),
        ("100%,1", LeastSaving(1, 1)),
    ],
)
def test_wsh02_a_least_saving_is_dollars_an_hour_or_a_percentage_or_both(text: str, expected: LeastSaving) -> None:
    assert read_least_saving(text) == expected
    assert policy_of(node_pool(annotations={labels.LEAST_SAVING: text})).least_saving == expected


@pytest.mark.parametrize(
    "text", ["", "cheap", "-1", "101%", "5%, 6%", "1, 2", "0.05,", "1e3", "nan", "inf", "5 %", "٣"]
)
def test_wsh02_a_broken_least_saving_is_refused_and_moves_nothing(text: str) -> None:
    pool = node_pool(annotations={labels.LEAST_SAVING: text})
    (fault,) = check_nodepool(pool)
    assert fault.path == "metadata.annotations[tenon.sh/least-saving]"
    assert "write 0.05, 5%, or both" in fault.sentence
    assert policy_of(pool).least_saving == LeastSaving(dollars=inf)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("2h30m", 9000), ("1.5h", 5400), ("0", 0)])
def test_wsh01_a_rest_is_a_go_duration(text: str, seconds: float) -> None:
    assert read_rest(text) == timedelta(seconds=seconds)
    assert policy_of(node_pool(annotations={labels.REST_AFTER_MOVE: text})).rest_after_move == read_rest(text)


@pytest.mark.parametrize("text", ["", "Never", "1d", "-5m", "5 m"])
def test_wsh01_a_broken_rest_is_refused_and_lasts(text: str) -> None:
    pool = node_pool(annotations={labels.REST_AFTER_MOVE: text})
    (fault,) = check_nodepool(pool)
    assert fault.path == "metadata.annotations[tenon.sh/rest-after-move]"
    assert "is not a duration" in fault.sentence
    assert policy_of(pool).rest_after_move > timedelta(days=10_000)


@pytest.mark.parametrize(("text", "factor"), [("1", 1.0), ("2.5", 2.5), ("1e2", 100.0)])
def test_a_shortage_price_factor_is_a_number(text: str, factor: float) -> None:
    assert read_price_factor(text) == factor
    assert price_factor({labels.SHORTAGE_PRICE_FACTOR: text}) == factor


@pytest.mark.parametrize("text", ["", "2x", "0.5", "-2", "nan", "inf"])
def test_a_broken_shortage_price_factor_is_refused_and_the_default_counts(text: str) -> None:
    pool = node_pool(annotations={labels.SHORTAGE_PRICE_FACTOR: text})
    (fault,) = check_nodepool(pool)
    assert fault.path == "metadata.annotations[tenon.sh/shortage-price-factor]"
    assert "is not a factor" in fault.sentence
    assert price_factor(pool.metadata.annotations) == DEFAULT_FACTOR == 2


@pytest.mark.parametrize(("text", "waits"), [("Wait", True), ("Buy", False)])
def test_a_shortage_policy_is_wait_or_buy(text: str, waits: bool) -> None:
    pool = node_pool(annotations={labels.SHORTAGE_POLICY: text})
    assert check_nodepool(pool) == []
    assert waits_in_shortage(pool.metadata.annotations) == waits


@pytest.mark.parametrize("text", ["", "wait", "Never"])
def test_a_broken_shortage_policy_is_refused_and_pods_do_not_wait(text: str) -> None:
    pool = node_pool(annotations={labels.SHORTAGE_POLICY: text})
    (fault,) = check_nodepool(pool)
    assert fault.path == "metadata.annotations[tenon.sh/shortage-policy]"
    assert fault.sentence.endswith("is not a policy: write Buy or Wait")
    assert not waits_in_shortage(pool.metadata.annotations)


def test_wsh02_without_the_annotations_nothing_is_held_back() -> None:
    policy = policy_of(node_pool())
    assert (policy.least_saving, policy.rest_after_move) == (None, timedelta())


def replaced(least: str | None) -> Cluster:
    """One node for $0.192 an hour whose pods fit on one for $0.034."""
    return Cluster(
        pools={"default": PoolSpec(least_saving=least)}, nodes={"a": NodeSpec(type="m5.xlarge", pods=[PodSpec()])}
    )


@pytest.mark.parametrize(
    ("least", "count"), [(None, 1), ("0.1", 1), ("0.15", 0), ("50%", 1), ("99%", 0), ("0.1, 99%", 0), ("0.15, 1%", 0)]
)
def test_wsh02_a_replacement_must_save_what_its_pool_asks_for(least: str | None, count: int) -> None:
    commands = decided(replaced(least)).commands
    assert len(commands) == count
    if least == "50%":
        assert commands[0].guaranteed_saving >= 0.192 / 2


@pytest.mark.parametrize(("least", "count"), [("100%", 1), ("0.096", 1), ("0.0961", 0)])
def test_wsh02_a_deletion_saves_the_whole_price(least: str, count: int) -> None:
    cluster = Cluster(
        pools={"default": PoolSpec(least_saving=least), "other": PoolSpec(consolidate_after=None)},
        nodes={
            "a": NodeSpec(type="m5.large", pods=[SMALL]),
            "b": NodeSpec(pool="other", type="m5.4xlarge", pods=[SMALL]),
        },
    )
    assert len(decided(cluster).commands) == count


@settings(max_examples=60, deadline=None)
@given(clusters(), st.sampled_from(["0.02", "0.2", "10%", "60%", "0.1, 50%"]), st.sampled_from([None, "0.05", "30%"]))
def test_wsh02_every_command_saves_what_the_strictest_of_its_pools_asks_for(
    cluster: Cluster, first: str, second: str | None
) -> None:
    texts = {name: text for name, text in zip(cluster.pools, (first, second), strict=False) if text is not None}
    pools = {name: pool.model_copy(update={"least_saving": texts.get(name)}) for name, pool in cluster.pools.items()}
    cluster = cluster.model_copy(update={"pools": pools})
    model = situation(cluster).model
    assert model is not None
    commands = decided(cluster).commands
    assert findings(cluster, commands) == []
    for command in commands:
        cost = sum(model.details[candidate.node.claim].price for candidate in command.candidates)
        for name in {candidate.node.pool for candidate in command.candidates} & texts.keys():
            assert command.guaranteed_saving >= read_least_saving(texts[name]).of(cost) - 1e-6


def young(age: str, created_for: str = Reason.UNDERUTILIZED, rest: str = "2h") -> Cluster:
    node = NodeSpec(type="m5.4xlarge", pods=[SMALL], age=age, created_for=created_for)
    return Cluster(pools={"default": PoolSpec(rest=rest)}, nodes={"a": node})


def test_wsh01_a_node_that_consolidation_created_rests() -> None:
    decision = decided(young("90m"))
    assert (decision.commands, decision.next_pass) == ((), NOW + timedelta(minutes=30))
    assert len(decided(young("2h")).commands) == 1


def test_wsh01_other_nodes_do_not_rest() -> None:
    assert len(decided(young("90m", Reason.DRIFTED)).commands) == 1
    assert len(decided(young("90m", "")).commands) == 1
    assert len(decided(young("90m", rest="0s")).commands) == 1


def two_that_leave(slowed: dict[str, str]) -> Decision:
    """Two nodes that are each replaced by a cheaper one."""
    nodes = {
        name: NodeSpec(type="m5.xlarge", zone=zone, pods=[PodSpec(selector={labels.ZONE: zone})])
        for name, zone in (("a", "us-west-2a"), ("b", "us-west-2b"))
    }
    decision = decide(replace(situation(Cluster(nodes=nodes)), slowed=slowed), [Consolidation()])
    for error in decision.failed.values():
        raise error
    return decision


@pytest.mark.parametrize(("slowed", "count"), [({}, 2), ({"other": "wait"}, 2), ({"default": ""}, 1)])
def test_wsh01_a_pool_that_is_slowed_down_runs_one_command_at_a_time(slowed: dict[str, str], count: int) -> None:
    decision = two_that_leave(slowed)
    assert len(decision.commands) == count
    assert decision.unconsolidatable == {}


def test_wsh01_a_pool_that_waits_after_a_command_runs_none_and_says_why() -> None:
    decision = two_that_leave({"default": "the last commands saved nothing"})
    assert decision.commands == ()
    why = "NodePool default is slowed down: the last consolidation commands saved less than predicted"
    assert decision.unconsolidatable == {"a": why, "b": why}


@pytest.mark.parametrize(("text", "early"), [("true", True), ("false", False), (None, False)])
def test_dis31_a_nodepool_opens_its_nodes_within_consolidate_after(text: str | None, early: bool) -> None:
    pool = node_pool(annotations={} if text is None else {labels.TAKES_PODS_EARLY: text})
    assert check_nodepool(pool) == []
    assert policy_of(pool).takes_pods_early is early


def test_dis31_a_broken_annotation_is_refused_and_opens_no_node() -> None:
    pool = node_pool(annotations={labels.TAKES_PODS_EARLY: "yes"})
    (fault,) = check_nodepool(pool)
    assert fault.path == "metadata.annotations[tenon.sh/takes-pods-within-consolidate-after]"
    assert "write 'true' or 'false', in quotes" in fault.sentence
    assert policy_of(pool).takes_pods_early is False


def test_dis31_a_gauge_counts_the_nodes_that_take_no_pods_yet() -> None:
    nodes = {"quiet": NodeSpec(quiet="1h", pods=[SMALL]), "busy": NodeSpec(quiet="1m", pods=[SMALL])}
    gauge = metrics.CLOSED_DESTINATIONS.labels("default")._value
    measure_closed_destinations(situation(Cluster(pools={"default": PoolSpec(consolidate_after="5m")}, nodes=nodes)))
    assert gauge.get() == 1
    opened = PoolSpec(consolidate_after="5m", takes_pods_early=True)
    measure_closed_destinations(situation(Cluster(pools={"default": opened}, nodes=nodes)))
    assert gauge.get() == 0
    measure_closed_destinations(situation(Cluster(pools={"default": PoolSpec(consolidate_after="5m")}, nodes=nodes)))
    measure_closed_destinations(situation(Cluster(pools={"other": PoolSpec()}, nodes={})))
    assert gauge.get() == 0, "the NodePool is gone"
