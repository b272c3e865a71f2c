"""When an instance was stopped, as its NodeClaim says it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tenon.apis import labels
from tenon.kube.stopped_times import MAX_TIMES, StoppedTime, runs, started_now, stopped_now, stopped_times

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def test_a_stop_and_a_start_make_an_interval_each_written_once() -> None:
    stopped = stopped_now({}, NOON)
    assert stopped == {labels.STOPPED_TIMES: "2026-01-02T12:00:00Z/"}
    assert stopped_now(stopped, NOON + HOUR) == {}, "somebody started it by hand"
    started = started_now(stopped, NOON + HOUR)
    assert started == {labels.STOPPED_TIMES: "2026-01-02T12:00:00Z/2026-01-02T13:00:00Z"}
    assert started_now(started, NOON + 2 * HOUR) == {}
    assert started_now({}, NOON) == {}


def test_the_annotation_stays_bounded() -> None:
    annotations: dict[str, str] = {}
    for number in range(MAX_TIMES + 5):
        annotations |= stopped_now(annotations, NOON + 2 * number * HOUR)
        annotations |= started_now(annotations, NOON + (2 * number + 1) * HOUR)
    times = stopped_times(annotations[labels.STOPPED_TIMES])
    assert len(times) == MAX_TIMES
    assert times[0].since == NOON + 10 * HOUR


@pytest.mark.parametrize("text", ["", "yesterday", "/", "2026-01-02T13:00:00Z/2026-01-02T12:00:00Z", ",,"])
def test_what_cannot_be_read_counts_as_no_stop(text: str) -> None:
    assert stopped_times(text) == []


def test_an_instance_runs_when_it_is_not_stopped() -> None:
    times = [StoppedTime(NOON + HOUR, NOON + 2 * HOUR), StoppedTime(NOON + 4 * HOUR)]
    assert runs(NOON, None, times) == [(NOON, NOON + HOUR), (NOON + 2 * HOUR, NOON + 4 * HOUR)]
    assert runs(NOON, NOON + 3 * HOUR, times) == [(NOON, NOON + HOUR), (NOON + 2 * HOUR, NOON + 3 * HOUR)]
    assert runs(NOON, NOON + HOUR / 2, times) == [(NOON, NOON + HOUR / 2)]
    assert runs(NOON, None, []) == [(NOON, None)]
