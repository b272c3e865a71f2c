"""Conditions: when the transition time moves, and how Ready follows (NP-S4, NC-04, EC-S6)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tenon.apis.common import Condition
from tenon.apis.conditions import READY, clear_condition, get_condition, is_true, set_condition, set_root
from tests.tenon.apis.case import is_false

NOW = datetime(2026, 1, 1, 12, 0, 0, 250_000, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)


def found(conditions: list[Condition], type_: str) -> Condition:
    condition = get_condition(conditions, type_)
    assert condition is not None
    return condition


def test_transition_time_moves_only_with_the_status() -> None:
    first = set_condition([], "Launched", "Unknown", now=NOW, reason="Starting")
    same = set_condition(first, "Launched", "Unknown", now=LATER, reason="Waiting", message="for capacity")
    assert found(same, "Launched").last_transition_time == NOW.replace(microsecond=0)
    assert found(same, "Launched").message == "for capacity"
    true = set_condition(same, "Launched", "True", now=LATER)
    assert found(true, "Launched").last_transition_time == LATER.replace(microsecond=0)


def test_the_input_and_the_others_stay_as_they_are() -> None:
    first = set_condition(set_condition([], "A", "True", now=NOW), "B", "True", now=NOW)
    second = set_condition(first, "A", "False", now=LATER)
    assert [condition.type for condition in second] == ["A", "B"]
    assert is_true(first, "A")
    assert is_false(second, "A")
    assert found(second, "B") is found(first, "B")
    assert clear_condition(second, "A") == [found(first, "B")]


def test_an_empty_reason_becomes_the_type() -> None:
    assert found(set_condition([], "Drained", "True", now=NOW), "Drained").reason == "Drained"


@pytest.mark.parametrize(
    ("states", "ready"),
    [
        ({"A": "True", "B": "True"}, "True"),
        ({"A": "True"}, "Unknown"),
        ({"A": "True", "B": "Unknown"}, "Unknown"),
        ({"A": "Unknown", "B": "False"}, "False"),
        ({"A": "True", "B": "True", "C": "False"}, "True"),
    ],
)
def test_ready_sums_up_its_dependents(states: dict[str, str], ready: str) -> None:
    conditions: list[Condition] = []
    for type_, status in states.items():
        conditions = set_condition(conditions, type_, status, now=NOW)  # type: ignore[arg-type]
    root = found(set_root(conditions, ("A", "B"), now=LATER, observed_generation=7), READY)
    assert root.status == ready
    assert root.observed_generation == 7


def test_ready_names_what_is_missing() -> None:
    conditions = set_condition([], "SubnetsReady", "False", now=NOW)
    root = found(set_root(conditions, ("SubnetsReady", "AMIsReady"), now=NOW), READY)
    assert (root.reason, root.message) == ("UnhealthyDependents", "SubnetsReady is not met")
    root = found(set_root([], ("SubnetsReady", "AMIsReady"), now=NOW), READY)
    assert root.reason == "ReconcilingDependents", "as in Karpenter, whose users select by it"
