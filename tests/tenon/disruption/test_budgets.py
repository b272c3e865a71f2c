"""Disruption budgets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tenon.apis.duration import Duration
from tenon.apis.nodepool import Budget
from tenon.disruption.rules.budgets import UNLIMITED, allowed, is_active, opens_at

MONDAY_NINE = datetime(2026, 11, 23, 9, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("nodes", "total", "expected"),
    [("10%", 1, 1), ("10%", 11, 2), ("10%", 0, 0), ("0%", 50, 0), ("100%", 7, 7), ("3", 7, 3), ("0", 7, 0)],
)
def test_dis51_percentages_round_up(nodes: str, total: int, expected: int) -> None:
    """DIS-51."""
    assert allowed([Budget(nodes=nodes)], "Empty", total=total, unavailable=0, now=MONDAY_NINE) == expected


def test_dis51_the_tightest_budget_counts() -> None:
    """DIS-51."""
    budgets = [Budget(nodes="50%"), Budget(nodes="2"), Budget(nodes="0", reasons=["Drifted"])]
    assert allowed(budgets, "Empty", total=10, unavailable=0, now=MONDAY_NINE) == 2
    assert allowed(budgets, "Drifted", total=10, unavailable=0, now=MONDAY_NINE) == 0


def test_dis51_no_budget_for_a_reason_is_no_limit() -> None:
    """DIS-51."""
    assert (
        allowed([Budget(nodes="1", reasons=["Drifted"])], "Empty", total=9, unavailable=5, now=MONDAY_NINE) == UNLIMITED
    )


def test_n15_642_a_budget_for_repair_limits_no_other_reason() -> None:
    """N15-642."""
    budgets = [Budget(nodes="0", reasons=["Unhealthy"])]
    assert allowed(budgets, "Drifted", total=9, unavailable=0, now=MONDAY_NINE) == UNLIMITED


def test_dis52_unavailable_nodes_use_the_budget_up() -> None:
    """DIS-52."""
    assert allowed([Budget(nodes="3")], "Empty", total=9, unavailable=2, now=MONDAY_NINE) == 1
    assert allowed([Budget(nodes="3")], "Empty", total=9, unavailable=8, now=MONDAY_NINE) == 0


@pytest.mark.parametrize(
    ("offset", "active"),
    [
        (timedelta(), True),
        (timedelta(hours=7, minutes=59), True),
        (timedelta(hours=8), False),
        (timedelta(seconds=-1), False),
        (timedelta(days=-2), False),
    ],
)
def test_dis53_windows_open_at_the_hit_and_last_their_duration(offset: timedelta, active: bool) -> None:
    """DIS-53: weekdays from nine for eight hours, UTC."""
    budget = Budget(nodes="0", schedule="0 9 * * mon-fri", duration=Duration("8h"))
    assert is_active(budget, MONDAY_NINE + offset) is active


@pytest.mark.parametrize(
    "schedule", ["every monday", "0 0 9 * * 1", "0 9 * * 1 0", "0 9 L * *", "0 9 1W * *", "0 9 * * 1#1"]
)
def test_dis54_a_schedule_that_cannot_be_read_allows_nothing(schedule: str) -> None:
    """QRK-08. The pattern of Karpenter's CustomResourceDefinition accepts six fields, and any text in each."""
    budget = Budget(nodes="100%", schedule=schedule, duration=Duration("1h"))
    assert allowed([budget], "Empty", total=9, unavailable=0, now=MONDAY_NINE) == 0


def test_dis54_a_schedule_that_cannot_be_read_allows_nothing_for_other_reasons_either() -> None:
    broken = Budget(nodes="100%", schedule="every monday", duration=Duration("1h"), reasons=["Drifted"])
    budgets = [Budget(nodes="5"), broken]
    assert allowed(budgets, "Empty", total=9, unavailable=0, now=MONDAY_NINE) == 0
    assert opens_at(budgets, "Empty", total=9, unavailable=0, now=MONDAY_NINE) is None


def test_np20_named_schedules() -> None:
    """NP-20."""
    assert is_active(Budget(nodes="0", schedule="@daily", duration=Duration("10h")), MONDAY_NINE)
    assert not is_active(Budget(nodes="0", schedule="@daily", duration=Duration("9h")), MONDAY_NINE)


@pytest.mark.parametrize(
    ("budgets", "unavailable", "hours"),
    [
        ([Budget(nodes="1")], 0, 0),
        ([Budget(nodes="1")], 1, None),
        ([Budget(nodes="0", schedule="0 9 * * mon-fri", duration=Duration("8h"))], 0, 8),
        (
            [
                Budget(nodes="0", schedule="0 9 * * mon-fri", duration=Duration("8h")),
                Budget(nodes="1", schedule="0 16 * * *", duration=Duration("4h")),
            ],
            1,
            11,
        ),
        ([Budget(nodes="0", schedule="@hourly", duration=Duration("2h"))], 0, None),
        ([Budget(nodes="0", schedule="never", duration=Duration("2h"))], 0, None),
        ([Budget(nodes="0", reasons=["Drifted"])], 0, 0),
    ],
)
def test_budgets_open_when_the_last_window_that_binds_is_over(
    budgets: list[Budget], unavailable: int, hours: int | None
) -> None:
    opens = opens_at(budgets, "Empty", total=4, unavailable=unavailable, now=MONDAY_NINE)
    assert opens == (None if hours is None else MONDAY_NINE + timedelta(hours=hours))
