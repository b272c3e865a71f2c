"""What NodeRepairPolicies mean: which holds for a NodePool, which fault a condition is, and how far budgets reach."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenon.apis.nodepool import NodePool
from tenon.apis.noderepairpolicy import NodeRepairPolicy
from tenon.disruption.repair.decision import NodeHistory, decide_repair, faults_of
from tenon.disruption.repair.policies import RepairAction, built_in
from tenon.disruption.repair.user_policies import built_in_spec, policies_by_pool, policy_set, pool_repair
from tenon.kube.records import NodeCondition
from tests.tenon.apis.case import NODEPOOL, edited
from tests.tenon.apis.sample_repair_policy import BASE, FAULT

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
BUILT_IN = built_in(reboots=True)


def policy(name: str, weight: int | None = None, labels: dict[str, str] | None = None, **spec: Any) -> NodeRepairPolicy:
    selector = {"nodePoolSelector": {"matchLabels": labels or {}}}
    body = edited(BASE, selector | ({"weight": weight} if weight else {}) | spec)
    return NodeRepairPolicy.model_validate(body | {"metadata": {"name": name}})


def pool(name: str, **labels: str) -> NodePool:
    return NodePool.model_validate(NODEPOOL | {"metadata": {"name": name, "labels": labels}})


def condition(type_: str, status: str, reason: str = "", ago: timedelta = timedelta()) -> NodeCondition:
    return NodeCondition(type_, status, (NOW - ago).timestamp(), reason)


def test_of_the_policies_that_select_a_nodepool_the_highest_weight_and_then_the_first_name_holds() -> None:
    policies = [policy("b"), policy("a"), policy("ml", 5, {"team": "ml"}), policy("gpu", 9, {"gpu": "yes"})]
    pools = [pool("plain"), pool("ml", team="ml"), pool("both", team="ml", gpu="yes")]
    holding = policies_by_pool(policies, pools)
    assert {name: holds.metadata.name for name, holds in holding.items()} == {"plain": "a", "ml": "ml", "both": "gpu"}


def test_a_nodepool_that_no_policy_selects_keeps_the_built_in_ones() -> None:
    repair = pool_repair(BUILT_IN, [policy("ml", labels={"team": "ml"})], (), [pool("ml", team="ml"), pool("plain")])
    assert repair.policies_of("plain") == BUILT_IN
    assert repair.policies_of("ml") != BUILT_IN
    assert not repair.policies_of("ml").matching(condition("Ready", "False")), "the policy does not name Ready"


def test_an_invalid_policy_repairs_nothing_and_leaves_its_nodepools_to_no_other() -> None:
    repair = pool_repair(BUILT_IN, [policy("ml", 9), policy("other")], {"ml"}, [pool("plain")])
    assert repair.policies_of("plain").policies == ()


def test_a_policy_without_faults_turns_repair_off() -> None:
    repair = pool_repair(BUILT_IN, [policy("off", faults=[])], (), [pool("plain")])
    assert not repair.policies_of("plain").matching(condition("Ready", "False"))


def test_a_fault_without_an_expression_is_for_all_other_reasons_of_its_condition_only() -> None:
    faults = [
        FAULT | {"reasonRegex": "Lockup", "steps": [{"action": "RebootNode"}]},
        FAULT,
        FAULT | {"conditionType": "ReadonlyFilesystem", "reasonRegex": "Disk"},
    ]
    policies = policy_set(policy("kernel", faults=faults))
    (lockup,) = policies.matching(condition("KernelDeadlock", "True", "SoftLockup"))
    assert lockup.steps[0].action is RepairAction.REBOOT
    (other,) = policies.matching(condition("KernelDeadlock", "True", "TaskHung"))
    assert other.steps[0].action is RepairAction.REPLACE
    assert policies.matching(condition("ReadonlyFilesystem", "True", "Unknown")) == ()
    assert policies.matching(condition("KernelDeadlock", "False", "SoftLockup")) == ()


@pytest.mark.parametrize(
    ("lasts", "reboots", "action"),
    [
        (9, [], None),
        (10, [], RepairAction.REBOOT),
        (30, [20], RepairAction.REBOOT),
        (120, [60, 20], None),
        (120, [60, 30], RepairAction.REPLACE),
    ],
)
def test_a_ladder_waits_reboots_twice_and_then_replaces(
    lasts: int, reboots: list[int], action: RepairAction | None
) -> None:
    """Tolerated for 5 minutes, then 5 more; after the second reboot, the fault may last for 5 + 20 minutes."""
    steps = [
        {"action": "Wait", "patience": "5m"},
        {"action": "RebootNode", "limit": {"times": 2, "within": "24h"}},
        {"action": "ReplaceNode", "patience": "20m"},
    ]
    policies = policy_set(policy("kernel", faults=[FAULT | {"steps": steps}]))
    at = [NOW - ago * MINUTE for ago in reboots]
    history = NodeHistory(rebooted_at=max(at, default=None), reboots=tuple(at))
    faults = faults_of([condition("KernelDeadlock", "True", ago=lasts * MINUTE)], policies, history, NOW)
    decision = decide_repair(faults, NOW)
    assert (decision.action if decision else None) is action


def test_the_built_in_policies_read_the_same_as_an_object() -> None:
    for reboots in (True, False):
        karpenters = built_in(reboots=reboots)
        written = NodeRepairPolicy(spec=built_in_spec(karpenters))
        as_object = policy_set(NodeRepairPolicy.model_validate(written.to_dict()))
        for type_, status, reason in (
            ("Ready", "False", "KubeletNotReady"),
            ("Ready", "Unknown", "NodeStatusUnknown"),
            ("StorageReady", "False", "IOError"),
            ("AcceleratedHardwareReady", "False", "NvidiaXID48Error"),
            ("AcceleratedHardwareReady", "False", "NvidiaXID74Error"),
            ("AcceleratedHardwareReady", "False", "Odd"),
            ("DiskPressure", "True", "KubeletHasDiskPressure"),
        ):
            fault = condition(type_, status, reason)
            expected, shown = karpenters.matching(fault), as_object.matching(fault)
            assert [(p.toleration, p.drain_bound, p.steps) for p in shown] == [
                (p.toleration, p.drain_bound, p.steps) for p in expected
            ]


def test_only_the_beginning_of_a_reason_is_searched() -> None:
    """Anything may write a condition, and a search in a long reason would take minutes."""
    policies = policy_set(policy("kernel", faults=[FAULT | {"reasonRegex": "Lockup"}]))
    for length, is_fault in ((250, True), (251, False)):
        reason = "x" * length + "Lockup"
        assert bool(policies.matching(condition("KernelDeadlock", "True", reason))) is is_fault


def test_budgets_of_a_policy_count_all_its_nodepools_together() -> None:
    policies = [policy("ml", 5, {"team": "ml"}, budgets=[{"nodes": "1"}]), policy("other")]
    repair = pool_repair(BUILT_IN, policies, (), [pool("a", team="ml"), pool("b", team="ml"), pool("plain")])
    assert repair.budgets.keys() == {"a", "b"}
    assert repair.budgets["a"].pools == {"a", "b"}
