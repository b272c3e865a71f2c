"""What is done about a node with several faults, and when."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tenon.disruption.repair.decision import (
    NodeHistory,
    RepairDecision,
    decide_repair,
    faults_of,
    next_due,
)
from tenon.disruption.repair.legacy import fault_of
from tenon.disruption.repair.policies import (
    ANY_REASON,
    REBOOT_NODE,
    REPLACE_NODE,
    LadderStep,
    RepairAction,
    RepairPolicy,
    RepairPolicySet,
    built_in,
    validated,
)
from tenon.kube.decode import decode_node
from tenon.kube.records import NodeCondition

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
OLD = NodeHistory(created_at=NOW - 100 * HOUR)
BUILT_IN = built_in(reboots=True)
WAIT = RepairAction.WAIT


def fault(type_: str, since: timedelta, reason: str = "", status: str = "False") -> NodeCondition:
    return NodeCondition(type_, status, (NOW - since).timestamp(), reason)


def decided(
    *conditions: NodeCondition,
    policies: RepairPolicySet = BUILT_IN,
    history: NodeHistory = OLD,
    now: datetime = NOW,
) -> RepairDecision | None:
    return decide_repair(faults_of(conditions, policies, history, now), now)


def test_n15_111_a_fault_counts_when_its_toleration_is_over() -> None:
    broken = fault("StorageReady", 30 * MINUTE - timedelta(seconds=1))
    assert decided(broken) is None
    assert next_due(faults_of([broken], BUILT_IN, OLD, NOW), NOW) == NOW + timedelta(seconds=1)
    decision = decided(broken, now=NOW + timedelta(seconds=1))
    assert decision is not None
    assert (decision.action, decision.fault.text) == (RepairAction.REPLACE, "StorageReady is False")


def test_n15_111_a_fault_that_a_kubelet_dates_to_the_last_year_is_not_due() -> None:
    """The API server stores the time, and an exception here would stop the repair of all nodes."""
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": "9999-12-31T23:59:59Z"}
    body = {"metadata": {"name": "n"}, "spec": {}, "status": {"conditions": [ready]}}
    unhealthy = decode_node(json.dumps(body).encode()).unhealthy
    assert decided(*unhealthy) is None
    legacy_fault = fault_of(unhealthy)
    assert legacy_fault is not None
    assert legacy_fault.due is not None
    assert legacy_fault.due > NOW


def test_n15_112_the_most_disruptive_action_is_taken() -> None:
    reboot = fault("AcceleratedHardwareReady", 20 * MINUTE, "XID63")
    decision = decided(reboot)
    assert decision is not None
    assert decision.action is RepairAction.REBOOT
    decision = decided(reboot, fault("StorageReady", 30 * MINUTE))
    assert decision is not None
    assert (decision.action, decision.fault.condition.type) == (RepairAction.REPLACE, "StorageReady")


def test_n15_112_among_equal_actions_priority_then_age_then_name_decides() -> None:
    base = [RepairPolicy(name, "False", ANY_REASON, 10 * MINUTE) for name in ("A", "B", "C")]
    fallback = RepairPolicy("Z", "False", None, MINUTE)
    faults = [fault("A", 12 * MINUTE), fault("B", 20 * MINUTE), fault("C", 20 * MINUTE)]
    decision = decided(*faults, policies=validated([*base, fallback]))
    assert decision is not None
    assert decision.fault.condition.type == "B"
    urgent = validated([replace(base[0], priority=5), *base[1:], fallback])
    decision = decided(*faults, policies=urgent)
    assert decision is not None
    assert decision.fault.condition.type == "A"


def test_n15_113_the_shortest_drain_bound_of_the_eligible_policies_counts() -> None:
    storage, hardware = fault("StorageReady", HOUR), fault("AcceleratedHardwareReady", 11 * MINUTE, "XID79")
    decision = decided(storage, hardware)
    assert decision is not None
    assert (decision.fault.condition.type, decision.drain_bound) == ("StorageReady", 5 * MINUTE)
    assert decision.bound_by.condition.type == "AcceleratedHardwareReady"
    decision = decided(storage, replace(hardware, since=NOW.timestamp()))
    assert decision is not None
    assert decision.drain_bound == 10 * MINUTE


def test_n15_114_half_an_hour_of_waiting_is_worth_one_rank() -> None:
    low = RepairPolicy("A", "False", ANY_REASON, 10 * MINUTE)
    policies = validated([low, RepairPolicy("B", "False", None, 10 * MINUTE, priority=50)])
    young = decided(fault("B", 10 * MINUTE), policies=policies)
    old = decided(fault("A", 40 * MINUTE), policies=policies)
    assert young is not None
    assert old is not None
    assert young.score == old.score == 1.0
    pair = decided(fault("B", 25 * MINUTE), fault("A", 40 * MINUTE), policies=policies)
    assert pair is not None
    assert pair.score == 1.5


def test_n15_109_no_fault_is_older_than_its_node_or_its_last_reboot() -> None:
    broken = fault("StorageReady", 24 * HOUR)
    for history in (NodeHistory(created_at=NOW - 29 * MINUTE), replace(OLD, rebooted_at=NOW - 29 * MINUTE)):
        (only_fault,) = faults_of([broken], BUILT_IN, history, NOW)
        assert only_fault.due == NOW + MINUTE
        assert decided(broken, history=history) is None
    unknown = replace(broken, since=0.0)
    (only_fault,) = faults_of([unknown], BUILT_IN, OLD, NOW)
    assert OLD.created_at is not None
    assert only_fault.due == OLD.created_at + 30 * MINUTE, (
        "a condition that does not say since when counts from its Node"
    )


def test_n15_154_two_reboots_in_a_day_and_then_the_node_is_replaced() -> None:
    broken = fault("AcceleratedHardwareReady", 20 * HOUR, "XID63")
    for hours, action in (((), "RebootNode"), ((3,), "RebootNode"), ((3, 1), "ReplaceNode"), ((24, 1), "RebootNode")):
        history = replace(OLD, reboots=[NOW - hour * HOUR for hour in hours], rebooted_at=NOW - 30 * MINUTE)
        decision = decided(broken, history=history)
        assert decision is not None
        assert decision.action.text == action
        assert decision.fault.is_escalated is (action == "ReplaceNode")
        assert decision.fault.due == NOW - 20 * MINUTE, "the toleration begins again after each reboot"


def test_a_ladder_waits_reboots_and_replaces_each_with_its_own_patience() -> None:
    ladder = (
        LadderStep(WAIT, 5 * MINUTE),
        LadderStep(RepairAction.REBOOT, 2 * MINUTE, at_most=1, within=HOUR),
        LadderStep(RepairAction.REPLACE, 3 * MINUTE),
    )
    policies = validated([RepairPolicy("A", "True", ".", MINUTE, steps=ladder)], by_user=True)
    broken = fault("A", timedelta(), "Odd", "True")
    (first,) = faults_of([broken], policies, OLD, NOW)
    assert (first.action, first.due) == (RepairAction.REBOOT, NOW + 8 * MINUTE)
    rebooted = replace(OLD, reboots=(NOW - 10 * MINUTE,), rebooted_at=NOW)
    (second,) = faults_of([broken], policies, rebooted, NOW)
    assert (second.action, second.due) == (RepairAction.REPLACE, NOW + 4 * MINUTE)


def test_a_ladder_that_ends_leaves_the_node_until_the_limit_allows_another_reboot() -> None:
    steps = (LadderStep(RepairAction.REBOOT, at_most=1, within=HOUR),)
    policies = validated([RepairPolicy("A", "True", ".", MINUTE, steps=steps)], by_user=True)
    broken = fault("A", 10 * HOUR, "Odd", "True")
    for ago, is_due in ((59, False), (60, True)):
        history = replace(OLD, reboots=(NOW - ago * MINUTE,))
        assert (decided(broken, policies=policies, history=history) is not None) is is_due


def test_n15_115_the_decision_says_what_it_is_made_from() -> None:
    history = replace(OLD, reboots=(NOW - HOUR, NOW - 2 * HOUR))
    decision = decided(fault("AcceleratedHardwareReady", 20 * MINUTE, "XID63"), history=history)
    assert decision is not None
    details = decision.details()
    assert "XID(46|" in details.pop("reason-regex")
    assert details == {
        "condition": "AcceleratedHardwareReady",
        "status": "False",
        "reason": "XID63",
        "fallback": "false",
        "action": "ReplaceNode",
        "eligible-at": "2026-03-01T11:50:00+00:00",
        "termination-grace-period": "5m",
        "termination-grace-period-condition": "AcceleratedHardwareReady",
        "reboot-escalated": "true",
    }


CONDITIONS = st.lists(
    st.builds(
        NodeCondition,
        st.sampled_from(["Ready", "StorageReady", "KernelReady", "AcceleratedHardwareReady", "Other"]),
        st.sampled_from(["False", "Unknown"]),
        st.integers(0, 120).map(lambda minutes: (NOW - minutes * MINUTE).timestamp()),
        st.sampled_from(["", "XID63", "XID79", "IOError"]),
    ),
    max_size=5,
    unique_by=lambda condition: condition.type,
)
POLICIES = st.lists(
    st.builds(
        RepairPolicy,
        st.sampled_from(["Ready", "StorageReady", "KernelReady", "AcceleratedHardwareReady"]),
        st.sampled_from(["False", "Unknown"]),
        st.sampled_from([".*", "XID", "Error", "^$"]),
        st.integers(0, 60).map(lambda minutes: minutes * MINUTE),
        st.none() | st.integers(0, 10).map(lambda minutes: minutes * MINUTE),
        st.integers(0, 100),
        st.sampled_from([(REPLACE_NODE,), (REBOOT_NODE, REPLACE_NODE)]),
    ),
    max_size=6,
    unique_by=lambda policy: (policy.condition, policy.status, policy.reason),
).map(lambda policies: [*policies, RepairPolicy("Ready", "False", None, 30 * MINUTE)])
REBOOTS = st.lists(st.integers(0, 50).map(lambda hours: NOW - hours * HOUR), max_size=3)


@given(CONDITIONS, POLICIES, REBOOTS, st.randoms(use_true_random=False))
def test_n15_112_the_order_of_conditions_policies_and_reboots_does_not_matter(
    conditions: Sequence[NodeCondition],
    policies: Sequence[RepairPolicy],
    reboots: Sequence[datetime],
    random: Random,
) -> None:
    first = decided(*conditions, policies=validated(policies), history=replace(OLD, reboots=reboots))
    other = decided(
        *random.sample(conditions, len(conditions)),
        policies=validated(random.sample(policies, len(policies))),
        history=replace(OLD, reboots=random.sample(reboots, len(reboots))),
    )
    assert first == other


@given(CONDITIONS, POLICIES, REBOOTS)
def test_n15_112_another_fault_never_makes_the_repair_milder_slower_or_later(
    conditions: Sequence[NodeCondition], policies: Sequence[RepairPolicy], reboots: Sequence[datetime]
) -> None:
    checked, history = validated(policies), replace(OLD, reboots=reboots)
    fewer = decided(*conditions[:-1], policies=checked, history=history)
    more = decided(*conditions, policies=checked, history=history)
    if fewer is None:
        return
    assert more is not None
    assert more.action >= fewer.action
    assert more.score >= fewer.score
    if fewer.drain_bound is not None:
        assert more.drain_bound is not None
        assert more.drain_bound <= fewer.drain_bound


@given(CONDITIONS, POLICIES, st.integers(0, 300))
def test_n15_114_a_node_that_waits_longer_comes_no_later(
    conditions: Sequence[NodeCondition], policies: Sequence[RepairPolicy], minutes: int
) -> None:
    checked = validated(policies)
    now, later = (
        decided(*conditions, policies=checked),
        decided(*conditions, policies=checked, now=NOW + minutes * MINUTE),
    )
    if now is not None:
        assert later is not None
        assert later.score >= now.score
        assert later.action >= now.action
