"""What EC2 charges for an instance: by the second, for a minute at least, and each second once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.cost.bill import Lifetime, bill_of
from tenon.money import nanos, of_time
from tenon.record.entries import Entry
from tests.tenon.cost.ledger import T0, a_launch, a_lifetime, a_removal

PRICE = nanos(0.36)
"""0.0001 dollars a second."""
SECOND = nanos(0.0001)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def test_a_short_life_costs_a_minute_and_a_longer_one_its_seconds() -> None:
    for lived, charged in ((1, 60), (59.5, 60), (60, 60), (60.2, 61), (3600, 3600)):
        lifetime = a_lifetime(price=PRICE, ended_at=at(lived))
        assert lifetime.cost(at(-10), at(10_000)) == charged * SECOND, lived


def test_an_instance_that_runs_costs_what_it_has_run_until_now() -> None:
    lifetime = a_lifetime(price=PRICE)
    assert lifetime.cost_until(at(0)) == 0
    assert lifetime.cost_until(at(1)) == 60 * SECOND
    assert lifetime.cost_until(at(100)) == 100 * SECOND
    assert lifetime.hours(at(0), at(1800)) == 0.5


STOP = "2026-01-02T12:10:00Z/2026-01-02T14:10:00Z"
"""Ten minutes after the launch, for two hours."""


def test_a_warm_node_costs_its_disks_while_it_is_stopped() -> None:
    """Also when it has started since, and when it is gone."""
    prices = {"pool": SECOND}
    stopped, started = a_lifetime(stopped=STOP.partition("/")[0] + "/"), a_lifetime(stopped=STOP)
    removal = a_removal("i-1", ended_at=at(10_000), stopped=STOP)
    cases: list[tuple[list[Entry], list[Lifetime], int, int]] = [
        ([a_launch("i-1")], [stopped], 600, 9400),
        ([], [stopped], 600, 9400),
        ([a_launch("i-1")], [started], 600 + 2200, 7200),
        ([removal], [], 600 + 2200, 7200),
        ([a_launch("i-1"), removal], [], 600 + 2200, 7200),
    ]
    for entries, living, seconds, disks in cases:
        lifetimes = bill_of(entries, living, is_complete=True, disk_prices=prices).lifetimes
        amount = sum(lifetime.cost(at(0), at(10_000)) for lifetime in lifetimes)
        assert amount == seconds * SECOND + of_time(SECOND, timedelta(seconds=disks))
        hours = sum(lifetime.hours(at(0), at(10_000)) for lifetime in lifetimes if not lifetime.is_stopped)
        assert hours == pytest.approx(seconds / 3600)


def test_a_removal_while_it_was_stopped_ends_the_charge_for_its_disks() -> None:
    removal = a_removal("i-1", ended_at=at(900), stopped=STOP.partition("/")[0] + "/")
    lifetimes = bill_of([removal], [], is_complete=True, disk_prices={"pool": SECOND}).lifetimes
    assert [(item.is_stopped, item.launched_at, item.ended_at) for item in lifetimes] == [
        (False, at(0), at(600)),
        (True, at(600), at(900)),
    ]


def test_disks_without_a_price_count_as_nothing_and_the_instance_as_it_ran() -> None:
    lifetimes = bill_of([], [a_lifetime(stopped=STOP)], is_complete=True).lifetimes
    assert [item.price for item in lifetimes] == [PRICE, None, PRICE]


def test_a_price_that_is_not_known_counts_as_nothing() -> None:
    assert a_lifetime(price=None).cost(at(0), at(100)) == 0


@given(
    st.integers(1, 10**12),
    st.floats(0, 10_000),
    st.one_of(st.none(), st.floats(0, 10_000)),
    st.lists(st.floats(-100, 30_000), min_size=2, max_size=20),
)
def test_windows_that_follow_each_other_add_up_to_the_whole(
    price: int, launched: float, lived: float | None, ends: list[float]
) -> None:
    lifetime = Lifetime(
        "i", "c", "n", "p", "t", "z", "spot", price, at(launched), None if lived is None else at(launched + lived)
    )
    moments = sorted(at(end) for end in ends)
    parts = [lifetime.cost(start, end) for start, end in pairwise(moments)]
    assert min(parts) >= 0
    assert sum(parts) == lifetime.cost(moments[0], moments[-1])


def test_a_removal_alone_says_what_an_instance_cost() -> None:
    """Its launch may have been long before the window."""
    bill = bill_of([a_removal("i-1", price=0.36, launched_at=T0, ended_at=at(7200))], [], is_complete=True)
    assert [lifetime.cost(at(3600), at(9000)) for lifetime in bill.lifetimes] == [of_time(PRICE, timedelta(hours=1))]
    assert bill.endless == []


def test_the_price_of_an_instance_that_runs_is_that_of_its_launch() -> None:
    living = a_lifetime("i-1", price=nanos(9.0))
    bill = bill_of([a_launch("i-1", price=0.36)], [living], is_complete=True)
    assert [lifetime.price for lifetime in bill.lifetimes] == [PRICE]
    older = bill_of([], [living], is_complete=True)
    assert [lifetime.price for lifetime in older.lifetimes] == [nanos(9.0)]


def test_an_instance_that_is_terminating_costs_until_ec2_accepted() -> None:
    bill = bill_of([a_launch("i-1")], [a_lifetime("i-1", ended_at=at(500))], is_complete=True)
    assert [lifetime.ended_at for lifetime in bill.lifetimes] == [at(500)]


def test_an_entry_that_was_recorded_twice_counts_once() -> None:
    removal = a_removal("i-1", price=0.36, launched_at=T0, ended_at=at(100))
    bill = bill_of([a_launch("i-1"), a_launch("i-1"), removal, removal], [a_lifetime("i-1")], is_complete=True)
    assert [(lifetime.instance, lifetime.ended_at) for lifetime in bill.lifetimes] == [("i-1", at(100))]


def test_an_instance_that_its_claim_replaced_ended_when_the_next_was_launched() -> None:
    entries: list[Entry] = [
        a_launch("i-1", claim="c"),
        a_launch("i-2", claim="c", launched_at=at(300)),
        a_removal("i-2", claim="c", launched_at=at(300), ended_at=at(900)),
    ]
    bill = bill_of(entries, [], is_complete=True)
    assert [(lifetime.instance, lifetime.ended_at) for lifetime in bill.lifetimes] == [
        ("i-1", at(300)),
        ("i-2", at(900)),
    ]
    assert bill.endless == []


def test_an_instance_without_an_end_is_named_and_runs_only_if_nobody_knows_better() -> None:
    entries = [a_launch("i-1")]
    missing = bill_of(entries, [], is_complete=True)
    assert missing.endless == ["i-1"]
    assert [lifetime.ended_at for lifetime in missing.lifetimes] == [at(60)]
    unknown = bill_of(entries, [], is_complete=False)
    assert unknown.endless == []
    assert [lifetime.ended_at for lifetime in unknown.lifetimes] == [None]


def test_a_claim_that_was_never_launched_costs_nothing() -> None:
    removal = a_removal("", launched_at=None, ended_at=datetime(2026, 1, 1, tzinfo=UTC))
    assert bill_of([removal], [], is_complete=True).lifetimes == []
