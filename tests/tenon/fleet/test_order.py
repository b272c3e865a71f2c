"""Sorting, filtering and grouping of rows."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tenon.fleet.order import FilterError, GroupBy, SortKey, grouped, ordered, parse_filter
from tenon.node.state import Stage
from tests.tenon.fleet.cluster import NOW, a_row

ROWS = [
    a_row("b", cpu_requests=4000, price=0.1, pods=1, created=NOW - timedelta(hours=1), zone="us-west-2b"),
    a_row("a", cpu_requests=1000, price=None, pods=2, created=NOW, stage=Stage.DRAINING, pool="web"),
    a_row(
        "c", cpu_requests=1000, price=0.4, pods=3, created=NOW - timedelta(days=2), capacity_type="spot", ready=False
    ),
]


@pytest.mark.parametrize(
    ("key", "names"),
    [
        (SortKey.NAME, "abc"),
        (SortKey.CPU, "bac"),
        (SortKey.PRICE, "cba"),
        (SortKey.AGE, "cba"),
        (SortKey.PODS, "cab"),
        (SortKey.STAGE, "abc"),
    ],
)
def test_rows_are_sorted_and_equal_ones_by_name(key: SortKey, names: str) -> None:
    assert "".join(row.name for row in ordered(ROWS, key)) == names


def test_the_order_can_be_reversed() -> None:
    assert [row.name for row in ordered(ROWS, SortKey.NAME, reverse=True)] == ["c", "b", "a"]
    assert [row.name for row in ordered(ROWS, SortKey.PRICE, reverse=True)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", "abc"),
        ("spot", "c"),
        ("m5.", "abc"),
        ("zone=us-west-2b", "b"),
        ("pool=web stage=draining", "a"),
        ("pool=web spot", ""),
        ("cpu<30", "ac"),
        ("cpu>99%", "b"),
        ("price>0.2", "c"),
        ("ready=no", "c"),
        ("CLAIM-B", "b"),
    ],
)
def test_a_filter_is_words_that_must_all_match(text: str, names: str) -> None:
    matches = parse_filter(text)
    assert "".join(sorted(row.name for row in ROWS if matches(row))) == names


@pytest.mark.parametrize("text", ["size=large", "age>3", "cpu>", "cpu<1.2.3"])
def test_a_filter_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(FilterError, match=text.split("<", maxsplit=1)[0].split(">", maxsplit=1)[0]):
        parse_filter(text)


def test_groups_keep_the_order_and_have_totals() -> None:
    rows = ordered(ROWS, SortKey.CPU)
    by_zone = grouped(rows, GroupBy.ZONE)
    assert [(group.name, [row.name for row in group.rows]) for group in by_zone] == [
        ("us-west-2a", ["a", "c"]),
        ("us-west-2b", ["b"]),
    ]
    assert by_zone[0].totals.cost == 0.4
    assert [group.name for group in grouped([a_row(pool="")], GroupBy.POOL)] == ["no pool"]
    assert [group.name for group in grouped(rows, GroupBy.NONE)] == [""]


def test_the_key_for_groups_goes_through_all_of_them() -> None:
    assert [GroupBy.NONE.following, GroupBy.POOL.following, GroupBy.ZONE.following] == ["pool", "zone", "none"]


def test_numbers_in_names_are_sorted_as_numbers() -> None:
    names = ["ip-10-0-0-15", "ip-10-0-0-8", "ip-10-0-0-8b", "web", "8", "ip-9-0-0-20"]
    ordered_names = [row.name for row in ordered([a_row(name) for name in names], SortKey.NAME)]
    assert ordered_names == ["8", "ip-9-0-0-20", "ip-10-0-0-8", "ip-10-0-0-8b", "ip-10-0-0-15", "web"]
