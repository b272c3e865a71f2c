"""Durations: the forms that NP-12, NP-13, NP-16, NP-21 and ANN-01 take."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from tenon.apis.duration import BudgetDuration, Duration, PlainDuration, go_seconds

UNITS = {"s": 1, "m": 60, "h": 3600}
ADAPTER = TypeAdapter(Duration)


@given(st.lists(st.tuples(st.integers(0, 10_000), st.sampled_from("smh")), min_size=1, max_size=5))
def test_parts_add_up_and_the_text_reads_back(parts: list[tuple[int, str]]) -> None:
    text = "".join(f"{number}{unit}" for number, unit in parts)
    duration = ADAPTER.validate_python(text)
    assert duration.seconds == sum(number * UNITS[unit] for number, unit in parts)
    assert ADAPTER.dump_json(duration) == f'"{text}"'.encode()


@pytest.mark.parametrize(
    "text", ["", "1", "1d", "h", "1.5h", "-1h", " 1h", "1h ", "1h\n", "never", "NeverNever", "１h"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        Duration(text)


def test_never() -> None:
    never = Duration("Never")
    assert never.never
    assert never.seconds is None
    assert str(never) == "Never"
    assert Duration("Never") == never != Duration("0s")


def test_texts_of_one_length_are_equal() -> None:
    assert Duration("1h") == Duration("60m")
    assert len({Duration("1h"), Duration("60m"), Duration("59m60s")}) == 1


def test_the_longest_still_adds_to_an_instant() -> None:
    """A user's typing error must not raise OverflowError in every later sum."""
    seconds = Duration("9" * 40 + "h").seconds
    assert seconds is not None
    assert datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds) > datetime(2300, 1, 1, tzinfo=UTC)


def test_cannot_be_changed_but_can_be_pickled() -> None:
    with pytest.raises(AttributeError):
        Duration("1h").text = "2h"
    assert pickle.loads(pickle.dumps(Duration("1h"))).text == "1h"


def test_plain_durations_refuse_never() -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(PlainDuration).validate_python("Never")


@pytest.mark.parametrize(
    ("text", "good"), [("8h", True), ("8h30m", True), ("90m0s", True), ("30m8h", False), ("5s", False)]
)
def test_budget_durations_take_hours_and_minutes(text: str, good: bool) -> None:
    adapter = TypeAdapter(BudgetDuration)
    if good:
        assert adapter.validate_python(text).text == text
    else:
        with pytest.raises(ValidationError):
            adapter.validate_python(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1.5h", 5400.0), ("250ms", 0.25), ("1h0m30s", 3630.0), ("-2m", -120.0), ("+1s", 1.0), ("0", 0.0), (".5s", 0.5),
     ("true", None), ("", None), ("-", None), ("1", None), ("1d", None), ("1h ", None), ("9" * 200 + "h", None)],
)  # fmt: skip
def test_go_durations(text: str, seconds: float | None) -> None:
    assert go_seconds(text) == (None if seconds is None else pytest.approx(seconds))
