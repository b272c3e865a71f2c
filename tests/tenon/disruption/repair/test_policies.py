"""Which policies match a condition, which sets are refused, and what the built-in set says."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from tenon.disruption.repair.policies import (
    ANY_REASON,
    REBOOT_NODE,
    REPLACE_NODE,
    InvalidRepairPolicyError,
    LadderStep,
    RepairAction,
    RepairPolicy,
    RepairPolicySet,
    built_in,
    validated,
)
from tenon.kube.records import NodeCondition

MINUTE = timedelta(minutes=1)
FALLBACK = RepairPolicy("Ready", "False", None, 30 * MINUTE)
DISK = RepairPolicy("StorageReady", "False", "^IO", 10 * MINUTE)


def condition(type_: str, status: str = "False", reason: str = "") -> NodeCondition:
    return NodeCondition(type_, status, 0.0, reason)


def only(policies: RepairPolicySet, type_: str, status: str = "False", reason: str = "") -> RepairPolicy:
    (policy,) = policies.matching(condition(type_, status, reason))
    return policy


@pytest.mark.parametrize("status", ["False", "Unknown"])
@pytest.mark.parametrize("reason", ["", "KubeletNotReady"])
def test_n15_137_a_node_that_is_not_ready_is_replaced_after_half_an_hour(status: str, reason: str) -> None:
    policy = only(built_in(reboots=True), "Ready", status, reason)
    assert (policy.toleration, policy.drain_bound, policy.steps) == (30 * MINUTE, 10 * MINUTE, (REPLACE_NODE,))


@pytest.mark.parametrize("code", [46, 48, 54, 62, 63, 95, 109, 110, 136, 140, 143, 155, 156, 158])
def test_n15_138_faults_that_a_reboot_clears_reboot_twice_and_then_replace(code: int) -> None:
    """N15-138, N15-154: and replace at once without the gate RebootForRepair."""
    for reboots, steps in ((True, (REBOOT_NODE, REPLACE_NODE)), (False, (REPLACE_NODE,))):
        policy = only(built_in(reboots=reboots), "AcceleratedHardwareReady", reason=f"NvidiaXID{code}Error")
        assert (policy.toleration, policy.drain_bound, policy.steps) == (10 * MINUTE, 5 * MINUTE, steps)
    assert (REBOOT_NODE.action, REBOOT_NODE.at_most, REBOOT_NODE.within) == (
        RepairAction.REBOOT,
        2,
        timedelta(hours=24),
    )


@pytest.mark.parametrize("code", [64, 74, 79, 119, 120])
def test_n15_139_other_known_accelerator_faults_replace_after_ten_minutes(code: int) -> None:
    policy = only(built_in(reboots=True), "AcceleratedHardwareReady", reason=f"NvidiaXID{code}Error")
    assert (policy.toleration, policy.drain_bound, policy.steps) == (10 * MINUTE, 5 * MINUTE, (REPLACE_NODE,))


@pytest.mark.parametrize("reason", ["", "DCGMError", "XID14", "XID 46"])
def test_n15_140_accelerator_faults_of_unknown_kind_are_tolerated_for_half_an_hour(reason: str) -> None:
    policy = only(built_in(reboots=True), "AcceleratedHardwareReady", reason=reason)
    assert policy.is_fallback
    assert (policy.toleration, policy.drain_bound, policy.steps) == (30 * MINUTE, 10 * MINUTE, (REPLACE_NODE,))


@pytest.mark.parametrize("type_", ["StorageReady", "NetworkingReady", "KernelReady", "ContainerRuntimeReady"])
def test_n15_141_what_the_monitoring_agent_reports_is_replaced_after_half_an_hour(type_: str) -> None:
    policy = only(built_in(reboots=True), type_, reason="Anything")
    assert (policy.toleration, policy.drain_bound, policy.steps) == (30 * MINUTE, 10 * MINUTE, (REPLACE_NODE,))


def test_n15_142_an_expression_is_searched_anywhere_in_the_reason() -> None:
    """N15-103, N15-142: XID1400 is taken for XID140. All built-in policies have one priority."""
    policies = built_in(reboots=False)
    assert not only(policies, "AcceleratedHardwareReady", reason="XID1400").is_fallback
    assert {policies.rank(policy) for policy in policies.policies} == {0}


@pytest.mark.parametrize(
    ("type_", "status"), [("StorageReady", "Unknown"), ("DiskPressure", "True"), ("MyOwnReady", "False")]
)
def test_sch104_other_conditions_are_no_fault(type_: str, status: str) -> None:
    assert built_in(reboots=True).matching(condition(type_, status)) == ()


def test_n15_105_the_fallback_applies_to_each_pair_whose_expressions_do_not_match() -> None:
    policies = validated([FALLBACK, DISK])
    assert only(policies, "StorageReady", reason="IOError") == DISK
    assert only(policies, "StorageReady", reason="DiskGone") == FALLBACK
    assert only(policies, "Ready", reason="KubeletDead") == FALLBACK
    assert policies.matching(condition("KernelReady")) == ()


def test_n15_103_every_policy_whose_expression_matches_counts() -> None:
    other = replace(DISK, reason="Error$")
    policies = validated([FALLBACK, DISK, other])
    assert policies.matching(condition("StorageReady", reason="IOError")) == (DISK, other)


def test_n15_107_only_the_order_of_priorities_counts() -> None:
    high, low = replace(DISK, priority=90), replace(DISK, condition="KernelReady", priority=10)
    policies = validated([high, low, FALLBACK])
    assert [policies.rank(policy) for policy in (FALLBACK, low, high)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"condition": ""},
            "the repair policy for (no condition)=False has no condition type: name one, such as Ready",
        ),
        (
            {"status": "true"},
            "policy for StorageReady=true has the status 'true': use one of True, False, Unknown",
        ),
        ({"toleration": -MINUTE}, "has a negative toleration: use 0 or more"),
        ({"drain_bound": -MINUTE}, "has a negative termination grace period: use 0 or more"),
        ({"priority": 101}, "has the priority 101: use 0 to 100"),
        ({"priority": -1}, "has the priority -1: use 0 to 100"),
        ({"reason": "("}, "has a reason that is no regular expression"),
        ({"steps": ()}, "has no step: write at least one"),
        ({"steps": (LadderStep(7),)}, "has a wrong step 1: it has the unknown action 7"),  # type: ignore[arg-type]
        ({"steps": (LadderStep(RepairAction.REPLACE, -MINUTE),)}, "has a wrong step 1: its patience is negative"),
        (
            {"steps": (LadderStep(RepairAction.REBOOT, at_most=1),)},
            "has a wrong step 1: its limit needs both a number and a time",
        ),
        (
            {"steps": (LadderStep(RepairAction.REPLACE, at_most=1, within=MINUTE),)},
            "has a wrong step 1: only a reboot may have a limit",
        ),
        ({"steps": (replace(REBOOT_NODE, at_most=0),)}, "has a wrong step 1: its limit is below 1"),
        (
            {"steps": (replace(REBOOT_NODE, within=timedelta()),)},
            "has a wrong step 1: the time of its limit is not positive",
        ),
        (
            {"steps": (LadderStep(RepairAction.REBOOT), REPLACE_NODE)},
            "has a wrong step 1: it has no limit, so the steps after it are never taken",
        ),
    ],
)
def test_n15_108_a_wrong_policy_is_refused_with_its_name_and_reason(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(InvalidRepairPolicyError, match=r"^the repair policy for ") as refusal:
        validated([FALLBACK, replace(DISK, **changes)])  # type: ignore[arg-type]
    assert sentence in str(refusal.value)


def test_n15_104_a_set_has_one_fallback_which_does_not_reboot() -> None:
    reboots = replace(FALLBACK, steps=(REBOOT_NODE, REPLACE_NODE))
    for policies, sentence in (
        ([], "the set has no repair policy: write at least one"),
        ([DISK], "the set has no policy without a reason: one must be the fallback"),
        (
            [FALLBACK, replace(DISK, reason=None)],
            "the set has 2 policies without a reason (Ready=False and StorageReady=False): "
            "only one may be the fallback",
        ),
        (
            [reboots],
            "the fallback, which has no reason, reboots: a fallback may only replace the node",
        ),
    ):
        with pytest.raises(InvalidRepairPolicyError) as refusal:
            validated(policies)
        assert str(refusal.value) == sentence


def test_a_set_of_a_user_needs_no_fallback_and_leaves_other_reasons_alone() -> None:
    policies = validated([DISK], by_user=True)
    assert policies.matching(condition("StorageReady", reason="IOError")) == (DISK,)
    assert policies.matching(condition("StorageReady", reason="DiskGone")) == ()
    assert ANY_REASON == ".*"
