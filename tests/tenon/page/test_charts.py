"""Charts: where values and labels are drawn."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.page.charts import HEIGHT, WIDTH, ChartColumn, Reference, area_chart, column_chart, nice_step
from tenon.page.time_axis import Axis, axis_of

T0 = datetime(2026, 3, 2, 10, 20, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
FOUR_HOURS = Axis(T0, HOUR, 4)


@given(
    st.timedeltas(timedelta(minutes=1), timedelta(days=400)),
    st.integers(2, 300),
    st.integers(0, 10 * 365 * 24 * 3600),
)
def test_buckets_cover_the_window_and_are_not_too_many(window: timedelta, most: int, seconds: int) -> None:
    start = T0 + timedelta(seconds=seconds)
    axis = axis_of(start, start + window, most)
    assert axis.start <= start < axis.start + axis.length
    assert axis.end >= start + window
    assert axis.count <= most + 2
    assert axis.bucket(start) == 0
    ticks = axis.ticks()
    assert len(ticks) <= 15
    assert all(0 <= share < 1 for share, _ in ticks)


def test_buckets_begin_at_round_times() -> None:
    axis = axis_of(T0, T0 + 7 * DAY, 48)
    assert (axis.start.hour, axis.start.minute, axis.length) == (6, 0, timedelta(hours=6))
    assert [text for _, text in axis.ticks()] == [f"Mar {day}" for day in range(3, 10)]
    assert [text for _, text in axis_of(T0, T0 + DAY, 48).ticks()][:3] == ["12:00", "18:00", "00:00"]


def test_an_instant_outside_of_the_window_is_in_no_bucket() -> None:
    assert FOUR_HOURS.bucket(T0 - timedelta(seconds=1)) is None
    assert FOUR_HOURS.bucket(T0 + 4 * HOUR) is None
    assert FOUR_HOURS.bucket(T0 + 3.5 * HOUR) == 3


@pytest.mark.parametrize(("span", "step"), [(1, 0.5), (4, 1), (10, 5), (13, 5), (97, 50), (0.03, 0.01)])
def test_labels_are_round_numbers(span: float, step: float) -> None:
    assert nice_step(span) == pytest.approx(step)


@given(st.floats(1e-6, 1e9))
def test_a_scale_has_few_labels(span: float) -> None:
    assert 1 < span / nice_step(span) <= 4.0001


def test_a_line_has_a_step_for_each_value_and_ends_at_the_right() -> None:
    chart = area_chart(FOUR_HOURS, [0, 5, 10, 10], "money", lambda value: f"${value:g}", ["a", "b", "c", "d"])
    line = re.findall(r'd="([^"]*)" fill="none"', chart)[0]
    assert line == f"M0.00 {HEIGHT:.1f}H250.00L250.00 {HEIGHT / 2:.1f}H500.00L500.00 0.0H750.00L750.00 0.0H{WIDTH:.2f}"
    assert re.findall(r'bottom:([0-9.]+)%">(\$\d+)', chart) == [("0.00", "$0"), ("50.00", "$5"), ("100.00", "$10")]
    assert re.findall("<title>(.)</title>", chart) == list("abcd")


def test_a_reference_above_all_values_is_in_the_picture() -> None:
    chart = area_chart(FOUR_HOURS, [1, 1, 1, 1], "money", str, [""] * 4, Reference([None, 5, None, 10], "bound"))
    assert re.search(r'<figcaption>money<span class="bound">bound</span></figcaption>', chart), "no line is below it"
    (line,) = re.findall(r'd="([^"]*)" fill="none" stroke="var\(--good\)"', chart)
    assert line == f"M250.00 {HEIGHT / 2}H500.00M750.00 0.0H1000.00"


def test_a_line_has_gaps_where_nothing_is_known() -> None:
    chart = area_chart(FOUR_HOURS, [None, 10, None, 5], "money", str, [""] * 4)
    area, line = re.findall(r'<path d="([^"]*)"', chart)
    assert line == f"M250.00 0.0H500.00M750.00 {HEIGHT / 2}H1000.00"
    assert area == f"M250.00 {HEIGHT}V0.0H500.00V{HEIGHT}ZM750.00 {HEIGHT}V{HEIGHT / 2}H1000.00V{HEIGHT}Z"


def test_columns_go_up_and_down_from_the_same_line() -> None:
    columns = [
        ChartColumn([(2, "red"), (2, "blue")], [(4, "green")], "first"),
        ChartColumn(),
        ChartColumn(),
        ChartColumn(),
    ]
    chart = column_chart(FOUR_HOURS, columns, "changes", str)
    found_boxes = re.findall(r'<rect x="[0-9.]+" y="([0-9.]+)" width="200.00" height="([0-9.]+)" fill="(\w+)"', chart)
    boxes = [(float(y), float(height), fill) for y, height, fill in found_boxes]
    assert boxes == [(50.0, 50.0, "red"), (0.0, 50.0, "blue"), (100.0, 100.0, "green")]
    assert "<title>first</title>" in chart
    assert chart.count("<title>") == 1


def test_charts_without_values_are_drawn() -> None:
    assert "<svg" in area_chart(FOUR_HOURS, [0, 0, 0, 0], "nothing", str, [""] * 4)
    assert "<svg" in column_chart(FOUR_HOURS, [ChartColumn()] * 4, "nothing", str)


def test_titles_and_captions_are_escaped() -> None:
    chart = area_chart(FOUR_HOURS, [1, 1, 1, 1], "<script>", lambda _: "<b>", ["</title><script>"] * 4)
    assert "<script" not in chart
    assert "<b>" not in chart
