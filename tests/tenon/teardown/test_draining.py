"""How long a teardown drains: budgets hold for the time that was given, then for no node, and it ends."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tenon.teardown.draining import FAILS_FOR, FIRST_PAUSE, FORCED_FOR, LONGEST_PAUSE, Draining

NOW = datetime(2026, 11, 27, tzinfo=UTC)


def drain(within: timedelta, leave_after: timedelta | None) -> tuple[Draining, datetime]:
    """A drain whose nodes leave after a time, or never."""
    draining, now = Draining(NOW, within), NOW
    for _ in range(1000):
        if draining.must_force(now):
            draining = replace(draining, forced_at=now)
        draining = replace(draining, rounds=draining.rounds + 1)
        node_count = int(leave_after is None or now - NOW < leave_after)
        if draining.is_over(now, node_count):
            return draining, now
        now += draining.pause(now)
    raise AssertionError("the drain never ends")


def test_a_drain_by_force_that_fails_for_hours_is_tried_again_at_growing_pauses() -> None:
    draining = Draining(NOW, timedelta(minutes=15))
    late = NOW + timedelta(hours=1)
    assert [replace(draining, rounds=rounds).pause(late) for rounds in (1, 2, 1000)] == [
        FIRST_PAUSE,
        2 * FIRST_PAUSE,
        LONGEST_PAUSE,
    ]


def test_a_drain_that_fails_is_given_up_a_day_after_its_time_and_not_within_it() -> None:
    within, second = timedelta(hours=40), timedelta(seconds=1)
    failing = Draining(NOW, within).after_round(NOW, failed=True)
    assert not failing.is_given_up(NOW + FAILS_FOR + second), "budgets still hold then, so the time is not over"
    assert not failing.is_given_up(NOW + within + FAILS_FOR - second)
    assert failing.is_given_up(NOW + within + FAILS_FOR)
    assert failing.after_round(NOW + within, failed=True).is_given_up(NOW + within + FAILS_FOR)


def test_a_round_that_succeeds_gives_a_failing_drain_another_day() -> None:
    late = NOW + timedelta(hours=60)
    failing = Draining(NOW, timedelta()).after_round(NOW, failed=True).after_round(late, failed=False)
    assert not failing.is_given_up(late)
    again = failing.after_round(late, failed=True)
    assert not again.is_given_up(late + FAILS_FOR - timedelta(seconds=1))
    assert again.is_given_up(late + FAILS_FOR)


@given(st.integers(min_value=0, max_value=24 * 3600), st.none() | st.integers(min_value=0, max_value=30 * 3600))
def test_budgets_hold_for_exactly_the_time_that_was_given(seconds: int, leave_after: int | None) -> None:
    within = timedelta(seconds=seconds)
    draining, end = drain(within, None if leave_after is None else timedelta(seconds=leave_after))
    if draining.forced_at is not None:
        assert within <= draining.forced_at - NOW <= within + timedelta(seconds=1)
        assert end - draining.forced_at <= FORCED_FOR + timedelta(minutes=5)
    else:
        assert leave_after is not None
        assert leave_after <= seconds + 300
    assert draining.rounds < 400
