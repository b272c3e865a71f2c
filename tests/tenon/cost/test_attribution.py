"""The bill of a window is divided among those who caused it, and the parts add up to the bill."""

from __future__ import annotations

from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tenon.cost.attribution import UNMEASURED, Measurement, attribute
from tenon.cost.bill import Lifetime
from tenon.cost.split import IDLE, Consumer, ConsumerKind
from tenon.money import nanos
from tests.tenon.cost.ledger import T0, a_lifetime, a_measurement, a_row

SHOP, BANK = Consumer(ConsumerKind.PODS, "shop"), Consumer(ConsumerKind.PODS, "bank")
HOUR = nanos(0.36)


def at(minutes: float) -> datetime:
    return T0 + timedelta(minutes=minutes)


def test_an_interval_is_divided_in_proportion_to_the_rows_of_the_pool() -> None:
    """The rows say less than the bill, because the leader's prices are of another day: only proportions count."""
    measurement = a_measurement(
        at(0), at(60), a_row("shop", 0.03), a_row("bank", 0.01), a_row("elsewhere", 5, pool="other")
    )
    answer = attribute([a_lifetime()], [measurement], at(0), at(60))
    assert answer.amounts == {("pool", SHOP): HOUR * 3 // 4, ("pool", BANK): HOUR // 4}
    assert answer.measured_until == at(60)


def test_time_without_a_measurement_and_pools_without_rows_are_unmeasured() -> None:
    measurements = [a_measurement(at(0), at(15), a_row()), a_measurement(at(30), at(45), a_row())]
    answer = attribute([a_lifetime(), a_lifetime("i-2", pool="other")], measurements, at(0), at(60))
    assert answer.amounts == {
        ("pool", SHOP): HOUR // 2,
        ("pool", UNMEASURED): HOUR // 2,
        ("other", UNMEASURED): HOUR,
    }


def test_the_time_since_the_last_entry_is_divided_as_pods_request_room_now() -> None:
    measurements = [a_measurement(at(0), at(15), a_row("shop"))]
    answer = attribute([a_lifetime()], measurements, at(0), at(60), {"pool": {BANK: 1, IDLE: 2}})
    assert answer.amounts == {("pool", SHOP): HOUR // 4, ("pool", BANK): HOUR // 4, ("pool", IDLE): HOUR // 2}


def test_a_measurement_at_the_edge_counts_for_its_part_of_the_window() -> None:
    measurements = [a_measurement(at(0), at(30), a_row("shop")), a_measurement(at(30), at(60), a_row("bank"))]
    answer = attribute([a_lifetime()], measurements, at(20), at(40))
    assert answer.amounts == {("pool", SHOP): HOUR // 6, ("pool", BANK): HOUR // 6}


def test_of_measurements_of_two_leaders_the_later_one_begins_where_the_other_ends() -> None:
    measurements = [a_measurement(at(10), at(60), a_row("bank")), a_measurement(at(0), at(30), a_row("shop"))]
    answer = attribute([a_lifetime()], measurements, at(0), at(60))
    assert answer.amounts == {("pool", SHOP): HOUR // 2, ("pool", BANK): HOUR // 2}


def test_a_row_of_a_newer_version_counts_as_pods() -> None:
    answer = attribute([a_lifetime()], [a_measurement(at(0), at(60), a_row(of="volumes"))], at(0), at(60))
    assert answer.amounts == {("pool", SHOP): HOUR}


MINUTES = st.integers(-100, 300)
LIFETIMES = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(1, 10**10), MINUTES, st.one_of(st.none(), st.integers(0, 200))),
    max_size=10,
)
ROWS = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.floats(0, 1)), max_size=5)
ENTRIES = st.lists(st.tuples(MINUTES, st.integers(1, 60), ROWS), max_size=8)


@given(LIFETIMES, ENTRIES, MINUTES, st.integers(0, 200), st.booleans())
def test_the_parts_of_each_pool_add_up_to_its_bill(
    lives: list[tuple[str, int, int, int | None]],
    intervals: list[tuple[int, int, list[tuple[str, str, float]]]],
    first: int,
    length: int,
    is_now: bool,
) -> None:
    since, until = at(first), at(first + length)
    lifetimes: list[Lifetime] = [
        a_lifetime(
            f"i-{number}",
            pool=pool,
            price=price,
            launched_at=at(start),
            ended_at=None if lived is None else at(start + lived),
        )
        for number, (pool, price, start, lived) in enumerate(lives)
    ]
    measurements: list[Measurement] = [
        a_measurement(at(start), at(start + lasts), *(a_row(name, cost, pool=pool) for pool, name, cost in rows))
        for start, lasts, rows in intervals
    ]
    answer = attribute(lifetimes, measurements, since, until, {"a": {SHOP: 1}} if is_now else None)
    assert all(amount > 0 for amount in answer.amounts.values())
    for pool in "ab":
        parts = sum(amount for (of, _), amount in answer.amounts.items() if of == pool)
        assert parts == sum(lifetime.cost(since, until) for lifetime in lifetimes if lifetime.pool == pool)
