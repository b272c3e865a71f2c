"""Which settings a simulation takes, and what it says of the others (SET-03, SET-04)."""

from __future__ import annotations

import pytest

from tenon.provisioning.planning_policy import PlanPolicy
from tenon.simulation.settings import (
    CA_BUNDLE,
    CHOICES,
    COMMITMENTS,
    GATES,
    GATES_OF_AWS,
    NUMBERS,
    SPREAD,
    WITHOUT_EFFECT_ON_PLANS,
    read_settings,
)
from worker.settings import Settings


def test_what_is_set_is_what_planning_gets() -> None:
    settings, faults, notes = read_settings(
        [
            "PREFERENCE_POLICY=Ignore",
            "min-values-policy=BestEffort",
            "NODE_CHARGE=0.5",
            "MAX_WORKLOAD_SHARE_PER_NODE=.25",
        ]
    )
    assert (faults, notes) == ([], [])
    assert settings.policy() == PlanPolicy(True, True, 0.5, 0.25)


def test_nothing_set_is_the_policy_of_a_worker_that_sets_nothing() -> None:
    assert read_settings([])[0].policy() == PlanPolicy()


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("MIN_VALUES_POLICY=strict", "MIN_VALUES_POLICY must be one of Strict, BestEffort"),
        ("NODE_CHARGE=-1", "NODE_CHARGE must be a number from 0 up to 1000"),
        ("NODE_CHARGE=nan", "NODE_CHARGE must be a number from 0 up to 1000"),
        ("NODE_CHARGE=1001", "NODE_CHARGE must be a number from 0 up to 1000"),
        ("NODE_CHARGE=", "NODE_CHARGE must be a number from 0 up to 1000"),
        ("MAX_WORKLOAD_SHARE_PER_NODE=0", "MAX_WORKLOAD_SHARE_PER_NODE must be a number above 0 up to 1"),
        ("MAX_WORKLOAD_SHARE_PER_NODE=1.5", "MAX_WORKLOAD_SHARE_PER_NODE must be a number above 0 up to 1"),
        ("NODE_CHARGE", "is not NAME=VALUE"),
        ("NODE_CHARGES=1", "unknown setting NODE_CHARGES"),
    ],
)
def test_what_is_malformed_is_one_fault(text: str, wrong: str) -> None:
    _, faults, notes = read_settings([text])
    assert [str(fault) for fault in faults] == [f"--set {text}: {wrong}"]
    assert notes == []


def test_every_setting_of_a_worker_is_known() -> None:
    names = {name.upper() for name in Settings.model_fields}
    of_own_kinds = {GATES, GATES_OF_AWS, SPREAD, CA_BUNDLE, COMMITMENTS}
    assert names - CHOICES.keys() - NUMBERS.keys() - of_own_kinds <= WITHOUT_EFFECT_ON_PLANS
