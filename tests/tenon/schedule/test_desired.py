"""What NodeSchedules ask for at an instant: overlaps, daylight saving, missed times, boot time."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.apis.nodeschedule import DAYS, NodeSchedule
from tenon.schedule.desired import NOTHING, PoolDemand, desired, timeline
from tenon.schedule.windows import windows_of
from tests.tenon.schedule.schedules import HOURS, NIGHTS, POOL, a_schedule

BERLIN = ZoneInfo("Europe/Berlin")
MINUTE = timedelta(minutes=1)
ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "UTC")


def at(text: str, zone: ZoneInfo = BERLIN) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=zone).astimezone(UTC)


def demand(now: datetime, *schedules: NodeSchedule) -> PoolDemand:
    return desired(schedules, now).pools.get(POOL, NOTHING)


clock_times = st.builds(lambda hour, minute: f"{hour:02d}:{minute:02d}", st.integers(0, 23), st.sampled_from([0, 30]))
effects = st.sampled_from(
    [
        {"closed": True},
        {"floor": {"nodes": 2}},
        {"floor": {"spare": {"cpu": "4"}}},
        {"replicas": 3},
        {"limits": {"cpu": 8}},
    ]
)
entries = st.builds(
    lambda begin, end, days, effect: {"from": begin, "to": end, "days": days} | effect,
    clock_times,
    clock_times,
    st.lists(st.sampled_from(DAYS), unique=True),
    effects,
) | st.builds(
    lambda hour, hours, effect: {"cron": f"0 {hour} * * *", "duration": f"{hours}h"} | effect,
    st.integers(0, 23),
    st.integers(1, 60),
    effects,
)
schedules = st.lists(
    st.builds(
        lambda zone, items, name: a_schedule(*items, zone=zone, name=name),
        st.sampled_from(ZONES),
        st.lists(entries, min_size=1, max_size=3),
        st.sampled_from(["a", "b", "c"]),
    ),
    min_size=1,
    max_size=3,
)
instants = st.integers(0, 270 * 24 * 60).map(lambda minutes: datetime(2026, 3, 1, tzinfo=UTC) + minutes * MINUTE)


@pytest.mark.parametrize("day", ["2026-03-28", "2026-03-29", "2026-03-30", "2026-10-24", "2026-10-25", "2026-10-26"])
def test_working_hours_keep_to_the_clock_over_both_changes_of_it(day: str) -> None:
    """Nodes are asked for a boot time before 09:00 and the NodePool is off from 19:00, on the clock of Berlin."""
    schedule = a_schedule(NIGHTS, HOURS)
    assert demand(at(f"{day}T08:54"), schedule).off
    assert demand(at(f"{day}T08:55"), schedule).floor_nodes == 2
    assert demand(at(f"{day}T18:59"), schedule).floor_nodes == 2
    assert demand(at(f"{day}T19:00"), schedule).off
    assert desired([schedule], at(f"{day}T12:00")).until[POOL] == at(f"{day}T18:55")


def test_a_time_that_the_clock_skips_is_when_it_goes_forward() -> None:
    [window] = windows_of(
        a_schedule({"from": "02:30", "to": "05:00", "days": ["Sun"], "closed": True}).spec.entries[0],
        "Europe/Berlin",
        at("2026-03-28T12:00"),
        at("2026-03-29T12:00"),
    )
    assert (window.start, window.end) == (at("2026-03-29T03:00"), at("2026-03-29T05:00"))


def test_a_time_that_comes_twice_counts_the_first_time() -> None:
    [window] = windows_of(
        a_schedule({"from": "02:30", "to": "05:00", "days": ["Sun"], "closed": True}).spec.entries[0],
        "Europe/Berlin",
        at("2026-10-24T12:00"),
        at("2026-10-25T12:00"),
    )
    assert window.start == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert window.end - window.start == timedelta(hours=3, minutes=30)


def test_cron_lasts_as_long_as_its_duration_says_also_when_the_clock_changes() -> None:
    schedule = a_schedule({"cron": "0 19 * * *", "duration": "14h", "closed": True}, bootTime="0s")
    assert demand(at("2026-03-29T09:59"), schedule).off
    assert not demand(at("2026-03-29T10:00"), schedule).off
    assert not demand(at("2026-10-25T08:00"), schedule).off


def test_off_wins_and_of_the_others_the_largest_floor_and_the_smallest_limits_hold() -> None:
    noon = at("2026-06-10T12:00")
    many = a_schedule(HOURS | {"floor": {"nodes": 5, "spare": {"cpu": "2"}}, "limits": {"cpu": "50"}}, name="many")
    few = a_schedule(HOURS | {"limits": {"cpu": "80", "memory": "1Gi"}, "replicas": 1}, name="few")
    combined = demand(noon, many, few)
    assert (combined.floor_nodes, combined.floor_spare, combined.replicas) == (5, {"cpu": 2000}, 1)
    assert combined.limits == {"cpu": 50_000, "memory": 2**30}
    assert combined.entries == ("few/hours", "many/hours")
    off = a_schedule({"from": "11:00", "to": "13:00", "closed": True}, name="off")
    closed = demand(noon, many, few, off)
    assert closed == PoolDemand(off=True, launches=False)
    assert closed.entries == ("off/0",)


def test_nights_and_a_weekend_that_touch_are_one_time_off_without_a_wake_up_between() -> None:
    weekend = {"from": "00:00", "to": "00:00", "days": ["Sat", "Sun"], "closed": True}
    schedule = a_schedule(NIGHTS | {"days": ["Mon", "Tue", "Wed", "Thu", "Fri", "Sun"]}, weekend)
    friday_evening = at("2026-06-12T20:00")
    assert desired([schedule], friday_evening).until[POOL] == at("2026-06-15T08:55")


def test_only_what_needs_nodes_begins_a_boot_time_early() -> None:
    """Fewer replicas take nodes and limits forbid some, so both begin at the time that is stated."""
    day = HOURS | {"name": "day", "replicas": 5, "limits": {"cpu": "8"}}
    night = {"name": "night", "from": "19:00", "to": "09:00", "replicas": 2, "limits": {"cpu": "2"}}
    schedule = a_schedule(day, night)
    morning, evening = demand(at("2026-06-10T08:55"), schedule), demand(at("2026-06-10T18:55"), schedule)
    assert (morning.replicas, morning.floor_nodes, morning.limits) == (5, 2, {"cpu": 2_000})
    assert demand(at("2026-06-10T09:00"), schedule).limits == {"cpu": 8_000}
    assert (evening.replicas, evening.limits) == (5, {"cpu": 8_000})
    assert desired([schedule], at("2026-06-10T12:00")).next_change == at("2026-06-10T19:00")
    after = demand(at("2026-06-10T19:00"), schedule)
    assert (after.replicas, after.floor_nodes, after.limits) == (2, 0, {"cpu": 2_000})


def test_limits_alone_change_nothing_before_the_time_that_is_stated() -> None:
    schedule = a_schedule(HOURS | {"floor": None, "limits": {"cpu": "8"}})
    assert demand(at("2026-06-10T08:59"), schedule) == NOTHING
    assert desired([schedule], at("2026-06-10T03:00")).next_change == at("2026-06-10T09:00")


def test_early_replicas_without_others_by_schedule_only_raise_what_the_nodepool_states() -> None:
    schedule = a_schedule(HOURS | {"floor": None, "replicas": 3, "limits": {"cpu": "8"}})
    assert demand(at("2026-06-10T08:54"), schedule) == NOTHING
    early = demand(at("2026-06-10T08:55"), schedule)
    assert early == PoolDemand(replicas_at_least=3)
    assert early.entries == ("hours/hours",)
    assert demand(at("2026-06-10T09:00"), schedule) == PoolDemand(replicas=3, limits={"cpu": 8_000})


def test_a_nodepool_wakes_up_with_the_replicas_and_limits_that_hold_when_it_opens() -> None:
    """Else it launched a boot time early what the stated time takes again, or what its limits forbid."""
    schedule = a_schedule(NIGHTS, HOURS | {"floor": None, "replicas": 2, "limits": {"cpu": "8"}})
    assert demand(at("2026-06-10T08:54"), schedule).off
    assert demand(at("2026-06-10T08:55"), schedule) == PoolDemand(replicas=2, limits={"cpu": 8_000})
    assert desired([schedule], at("2026-06-10T08:55")).until[POOL] == at("2026-06-10T18:55")


def test_a_suspended_schedule_asks_for_nothing() -> None:
    assert desired([a_schedule(NIGHTS, suspend=True)], at("2026-06-10T23:00")).pools == {}


def test_the_boot_time_is_the_stated_one_or_else_the_learned_one() -> None:
    """A known time holds only where the schedule states none, and five minutes where none is known."""
    learned = {"nodePools": [{"name": POOL, "bootTime": "20m"}, {"name": "other", "bootTime": "50m"}]}
    with_time = a_schedule(NIGHTS, status=learned)
    without_time = a_schedule(NIGHTS, bootTime=None, status=learned)
    assert opens(with_time) == at("2026-06-10T08:55")
    assert opens(without_time) == at("2026-06-10T08:40")
    assert opens(a_schedule(NIGHTS, bootTime=None)) == at("2026-06-10T08:55")


def opens(schedule: NodeSchedule) -> datetime:
    return desired([schedule], at("2026-06-10T03:00")).opens[POOL]


def test_a_pool_that_is_closed_says_when_it_opens_on_its_clock() -> None:
    schedule = a_schedule(NIGHTS)
    before_off, off = (desired([schedule], at(f"2026-06-10T{clock}")) for clock in ("18:57", "19:00"))
    assert str(before_off.opens[POOL]) == str(off.opens[POOL]) == "2026-06-11 08:55:00+02:00"
    assert (before_off.pools[POOL].off, before_off.pools[POOL].launches) == (False, False)
    assert desired([schedule], at("2026-06-10T12:00")).opens == {}


@pytest.mark.parametrize("clock", ["11:54", "11:57", "12:00", "12:02", "12:04"])
def test_a_time_off_that_is_shorter_than_a_boot_changes_nothing(clock: str) -> None:
    schedule = a_schedule({"from": "12:00", "to": "12:03", "closed": True})
    state = desired([schedule], at(f"2026-06-10T{clock}"))
    assert (state.pools[POOL], state.opens, state.off_from) == (NOTHING, {}, {})


def test_the_next_change_counts_headroom_too() -> None:
    buffer = {"name": "web", "namespace": "shop", "replicas": 2}
    schedule = a_schedule({"from": "09:00", "to": "19:00", "headroom": [buffer]}, nodePools=[])
    assert desired([schedule], at("2026-06-10T03:00")).next_change == at("2026-06-10T08:55")
    assert desired([schedule], at("2026-06-10T08:55")).next_change == at("2026-06-10T19:00")


def test_headroom_begins_a_boot_time_early_and_the_largest_counts() -> None:
    buffer = {"name": "web", "namespace": "shop"}
    small = a_schedule({"from": "09:00", "to": "19:00", "headroom": [buffer | {"replicas": 2}]}, nodePools=[])
    large = a_schedule({"from": "12:00", "to": "13:00", "headroom": [buffer | {"replicas": 9}]}, name="noon")
    key = ("shop", "web")
    assert desired([small, large], at("2026-06-10T08:54")).buffers == {}
    assert desired([small, large], at("2026-06-10T08:55")).buffers == {key: 2}
    assert desired([small, large], at("2026-06-10T12:30")).buffers == {key: 9}
    assert desired([small, large], at("2026-06-10T19:00")).buffers == {}


def test_a_schedule_that_never_changes_has_no_end() -> None:
    always = a_schedule({"from": "00:00", "to": "00:00", "closed": True})
    assert desired([always], at("2026-06-10T12:00")).until == {}


@given(schedules, instants, st.integers(0, 7 * 24 * 60))
def test_one_look_sees_what_an_earlier_look_foresaw(items: list[NodeSchedule], since: datetime, minutes: int) -> None:
    """Missed times need no repair: what holds at an instant does not depend on who looked before."""
    instant = since + minutes * MINUTE
    foreseen = timeline(items, POOL, since, since + timedelta(days=8))
    [segment] = [item for item in foreseen if item.start <= instant < item.end]
    assert demand(instant, *items) == segment.demand


@given(schedules, instants)
def test_nothing_changes_before_the_time_that_is_named(items: list[NodeSchedule], now: datetime) -> None:
    state = desired(items, now)
    if POOL in state.until:
        until = state.until[POOL]
        assert demand(until, *items) != state.pools[POOL]
        assert demand(now + (until - now) / 2, *items) == state.pools[POOL]


@given(schedules, instants)
def test_the_order_of_schedules_does_not_matter_if_names_differ(items: list[NodeSchedule], now: datetime) -> None:
    by_name = list({item.metadata.name: item for item in items}.values())
    assert desired(by_name, now) == desired(by_name[::-1], now)


@given(schedules, instants)
def test_no_node_is_launched_that_is_off_before_it_has_booted(items: list[NodeSchedule], now: datetime) -> None:
    """A launch that is allowed now is not followed by off within the boot time."""
    if demand(now, *items).launches:
        assert not demand(now, *items).off
        later = timeline(items, POOL, now, now + 5 * MINUTE)
        assert not any(segment.demand.off for segment in later)


@given(schedules, instants)
def test_a_pool_that_is_off_keeps_no_floor(items: list[NodeSchedule], now: datetime) -> None:
    for segment in timeline(items, POOL, now, now + timedelta(days=7)):
        if segment.demand.off:
            assert not segment.demand.floor_nodes
            assert not segment.demand.floor_spare
            assert segment.demand.replicas is None


@given(clock_times, clock_times, st.sampled_from(ZONES), instants)
def test_from_and_to_hold_exactly_when_the_clock_says_so(begin: str, end: str, zone: str, now: datetime) -> None:
    """Compared with the clock itself, on days without a change of it."""
    local = now.astimezone(ZoneInfo(zone))
    around = {(local + timedelta(days=days)).utcoffset() for days in (-2, -1, 0, 1, 2)}
    if len(around) > 1:
        return
    entry: dict[str, Any] = {"from": begin, "to": end, "limits": {"cpu": "1"}}
    schedule = a_schedule(entry, zone=zone, bootTime="0s")
    first, last, clock = time.fromisoformat(begin), time.fromisoformat(end), local.time()
    inside = first <= clock < last if first < last else clock >= first or clock < last
    assert bool(demand(now, schedule).limits) is inside


@given(st.dates(date(2026, 1, 1), date(2026, 12, 20)), st.sampled_from(ZONES))
def test_whole_days_cover_every_instant(day: date, zone: str) -> None:
    since = datetime.combine(day, time(), UTC)
    always = a_schedule({"from": "00:00", "to": "00:00", "closed": True}, zone=zone)
    assert [item.demand.off for item in timeline([always], POOL, since, since + timedelta(days=7))] == [True]
