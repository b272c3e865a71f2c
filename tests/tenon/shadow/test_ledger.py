"""What both cost over time: savings add up, and times without a watch do not count."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.shadow.ledger import MAX_GAP_SECONDS, MAX_SAMPLES, SAMPLE_SECONDS, Ledger, Rates

Dollars = st.floats(0, 1000)


def rates(theirs: float, ours: float) -> Rates:
    return Rates(theirs, ours, 1, 1)


@given(
    st.lists(st.tuples(st.floats(0.5, MAX_GAP_SECONDS), Dollars, Dollars), min_size=2, max_size=40), st.integers(1, 38)
)
def test_savings_of_parts_add_up_to_those_of_the_whole(notes: list[tuple[float, float, float]], cut: int) -> None:
    whole, parts, now = Ledger(), [Ledger(), Ledger()], 0.0
    for number, (seconds, theirs, ours) in enumerate(notes):
        now += seconds
        whole.note(now, rates(theirs, ours))
        if number <= cut:
            parts[0].note(now, rates(theirs, ours))
        if number >= cut:
            parts[1].note(now, rates(theirs, ours))
    assert whole.saved == pytest.approx(parts[0].saved + parts[1].saved, abs=1e-6)
    assert whole.seconds == pytest.approx(parts[0].seconds + parts[1].seconds)


def test_an_hour_at_a_rate_costs_the_rate() -> None:
    ledger = Ledger()
    for second in range(0, 3601, 60):
        ledger.note(float(second), rates(3.0, 2.0))
    assert ledger.their_dollars == pytest.approx(3.0)
    assert ledger.our_dollars == pytest.approx(2.0)
    assert ledger.saved == pytest.approx(1.0)


def test_a_time_in_which_nothing_watched_is_not_counted() -> None:
    ledger = Ledger()
    ledger.note(0.0, rates(3.0, 2.0))
    ledger.note(3600.0, rates(3.0, 2.0))
    assert (ledger.saved, ledger.unobserved_seconds) == (0.0, 3600.0)


def test_samples_are_bounded_and_keep_the_beginning() -> None:
    ledger = Ledger()
    for number in range(3 * MAX_SAMPLES):
        ledger.note(number * SAMPLE_SECONDS, rates(1.0, 1.0))
    assert len(ledger.samples) <= MAX_SAMPLES
    assert ledger.samples[0].at == 0.0
    assert ledger.samples[-1].at == (3 * MAX_SAMPLES - 1) * SAMPLE_SECONDS
