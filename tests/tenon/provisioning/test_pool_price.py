"""When the price in the status of a NodePool changes."""

from __future__ import annotations

import pytest

from tenon.provisioning.pool_price import status_price


@pytest.mark.parametrize(
    ("before", "price", "after"),
    [
        ("", 0.0, "0.0000"),
        ("", 1.53604, "1.5360"),
        ("1.0000", 1.0099, "1.0000"),
        ("1.0000", 1.011, "1.0110"),
        ("1.0000", 0.989, "0.9890"),
        ("1.0000", 0.0, "0.0000"),
        ("0.0000", 0.0, "0.0000"),
        ("cheap", 1.0, "1.0000"),
        ("nan", 1.0, "1.0000"),
    ],
)
def test_a_price_changes_by_more_than_one_percent(before: str, price: float, after: str) -> None:
    assert status_price(before, price) == after
