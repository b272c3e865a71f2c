"""How long an offering is left alone: bounds that hold for every sequence of refusals, successes and reports."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tenon.ec2.refusals.backoff import (
    FIRST_PAUSE,
    FIRST_PROBE_PAUSE,
    MAX_PAUSE,
    MAX_PROBE_PAUSE,
    REMEMBERED_FOR,
    Backoff,
    is_forgotten,
    launched,
    merged,
    pause,
    probe_pause,
    refused,
    shows_capacity,
)

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
SECONDS = st.integers(0, 4000).map(lambda seconds: timedelta(seconds=seconds))
STEPS = st.lists(st.tuples(SECONDS, st.booleans()), max_size=30)


def first() -> Backoff:
    return refused(None, NOW)


def test_aws033_one_refusal_counts_as_in_karpenter_and_repeated_ones_count_longer() -> None:
    backoff, pauses = first(), []
    for _ in range(5):
        pauses.append(backoff.until - (backoff.refused_at or NOW))
        backoff = refused(backoff, backoff.until)
    assert pauses == [timedelta(minutes=minutes) for minutes in (3, 6, 12, 15, 15)]


def test_refusals_of_calls_that_were_under_way_count_once() -> None:
    """Six hundred NodeClaims that were planned together are one try."""
    backoff = first()
    for seconds in range(25):
        backoff = refused(backoff, NOW + timedelta(seconds=seconds))
    assert backoff.refusals == 1


def test_a_probe_that_is_refused_lets_the_back_off_grow() -> None:
    backoff = first()
    assert backoff.probe_at == NOW + FIRST_PROBE_PAUSE
    again = refused(backoff, backoff.probe_at)
    assert (again.refusals, again.until) == (2, backoff.probe_at + timedelta(minutes=6))


@given(st.integers(0, 10_000))
def test_pauses_grow_and_have_bounds(refusals: int) -> None:
    assert FIRST_PAUSE <= pause(refusals) <= pause(refusals + 1) <= MAX_PAUSE
    assert FIRST_PROBE_PAUSE <= probe_pause(refusals) <= probe_pause(refusals + 1) <= MAX_PROBE_PAUSE


@given(STEPS)
def test_whatever_happens_a_probe_is_due_within_its_longest_pause(steps: list[tuple[timedelta, bool]]) -> None:
    """So pods that nothing else fits learn soon that EC2 has capacity again."""
    backoff, now = first(), NOW
    for later, succeeds in steps:
        now += later
        backoff = launched(backoff, now) if succeeds else refused(backoff, now)
        assert backoff.refused_at is not None
        assert backoff.probe_at <= max(backoff.refused_at + MAX_PROBE_PAUSE, now)
        assert backoff.until <= now + MAX_PAUSE
        assert backoff.is_active(now) is not succeeds


@given(STEPS)
def test_a_success_is_one_step_back_and_never_forgets_all_at_once(steps: list[tuple[timedelta, bool]]) -> None:
    backoff, now = first(), NOW
    for later, succeeds in steps:
        now += later
        before = backoff.refusals
        backoff = launched(backoff, now) if succeeds else refused(backoff, now)
        if succeeds:
            assert backoff.refusals == before // 2
        else:
            assert backoff.refusals in (before, before + 1)
            assert backoff.refusals >= 1


@given(st.lists(SECONDS, min_size=1, max_size=10), st.permutations(range(10)))
def test_reports_may_be_repeated(instants: list[timedelta], order: list[int]) -> None:
    """A process reports all that it knows, again and again."""
    backoff: Backoff | None = None
    reports = [Backoff(NOW + at + FIRST_PAUSE, NOW + at, 1) for at in sorted(instants)]
    for report in reports:
        backoff = merged(backoff, report)
    assert backoff is not None
    for index in order:
        assert merged(backoff, reports[index % len(reports)]) == backoff


def test_an_offering_that_ec2_takes_back_is_avoided_and_does_not_count_as_refused() -> None:
    interruption = Backoff(NOW + FIRST_PAUSE)
    assert merged(None, interruption).refusals == 0
    assert merged(first(), interruption._replace(until=NOW + timedelta(hours=1))).refusals == 1
    assert merged(interruption, first()) == first()
    assert interruption.probe_at == interruption.until, "no NodeClaim probes it"


def test_only_a_later_launch_shows_capacity() -> None:
    """One answer of EC2 may launch five instances and refuse the sixth."""
    assert not shows_capacity(first(), NOW + timedelta(seconds=3))
    assert shows_capacity(first(), NOW + FIRST_PROBE_PAUSE)
    assert not shows_capacity(Backoff(NOW + FIRST_PAUSE), NOW + timedelta(hours=1))


def test_a_refusal_after_a_success_goes_on_from_half_and_is_forgotten_in_time() -> None:
    backoff = Backoff(NOW, NOW - timedelta(minutes=15), 8)
    backoff = refused(launched(backoff, NOW), NOW + timedelta(seconds=5))
    assert backoff.refusals == 5
    assert not is_forgotten(backoff, backoff.until)
    assert is_forgotten(backoff, backoff.until + REMEMBERED_FOR)
