"""Amounts are divided without losing a nano-dollar."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.money import NANOS, decimal_text, divide, dollars, instance_charge, nanos, of_time

WEIGHTS = st.lists(st.integers(0, 10**15), min_size=1, max_size=50).filter(any)


@given(st.integers(0, 10**14), WEIGHTS)
def test_parts_add_up_to_the_amount_and_differ_from_their_share_by_less_than_one(
    amount: int, weights: list[int]
) -> None:
    parts = divide(amount, weights)
    assert sum(parts) == amount
    for part, weight in zip(parts, weights, strict=True):
        assert abs(part * sum(weights) - amount * weight) < sum(weights)
        assert part >= 0
        assert weight or not part


def test_what_rounding_down_loses_goes_to_the_largest_remainders() -> None:
    assert divide(10, [1, 1, 1]) == [4, 3, 3]
    assert divide(10, [5, 3, 7]) == [3, 2, 5]  # 3.33, 2.0, 4.67


def test_an_amount_needs_something_to_be_divided_by() -> None:
    assert divide(0, [0, 0]) == [0, 0]
    with pytest.raises(ValueError, match="all weights are zero"):
        divide(1, [0, 0])


@given(st.integers(0, 10**9))
def test_dollars_and_nano_dollars_are_the_same_amount(amount: int) -> None:
    assert nanos(dollars(amount)) == amount


def test_a_price_for_a_time_is_rounded_half_to_even() -> None:
    assert of_time(nanos(0.096), timedelta(hours=1)) == 96_000_000
    assert of_time(3600, timedelta(milliseconds=500)) == 0  # half a nano-dollar
    assert of_time(3600, timedelta(milliseconds=1500)) == 2
    assert of_time(3600, timedelta(milliseconds=501)) == 1


def test_files_have_all_digits_of_an_amount() -> None:
    assert decimal_text(1) == "0.000000001"
    assert decimal_text(12 * NANOS) == "12"


def test_an_instance_costs_a_minute_at_least_and_each_second_that_has_begun() -> None:
    assert instance_charge(nanos(3.6), timedelta(seconds=1)) == nanos(0.06)
    assert instance_charge(nanos(3.6), timedelta(seconds=60, microseconds=1)) == nanos(0.061)
