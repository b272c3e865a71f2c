"""Times in sentences have one form, whatever wrote them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from pydantic import ValidationError

from tenon.apis.base import rfc3339
from tenon.apis.duration import MAX_SECONDS
from tenon.kube.timestamps import epoch_seconds, format_instant, from_epoch, next_attempt, parse_instant, time_text
from tenon.messages.node import Keep

ROOT = Path(__file__).parents[3]
AT = datetime(2026, 11, 29, 5, 8, 41, 999_999, timezone(timedelta(hours=2)))
ANOTHER_FORM = re.compile(r"%(?:S|M)\}? UTC|isoformat\(\)[^\"\n]*\} *UTC|(?:at|by|since|until) \{format_instant")


def test_a_time_in_a_sentence_is_in_utc_to_the_second_and_json_has_it_as_kubernetes_does() -> None:
    assert time_text(AT) == "2026-11-29 03:08:41 UTC"
    assert next_attempt(AT) == "next attempt at 2026-11-29 03:08:41 UTC"
    assert format_instant(AT) == "2026-11-29T03:08:41Z"


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_ann04_every_time_that_kubernetes_stores_is_written_as_it_was_read(text: str) -> None:
    """A drain writes the end of its grace period back on the NodeClaim, and Go writes the year 1 for none."""
    instant = parse_instant(text)
    assert instant is not None
    assert format_instant(instant) == text


@pytest.mark.parametrize(("text", "is_past"), [("0001-01-01T00:00:00Z", True), ("9999-12-31T23:59:59Z", False)])
def test_every_duration_can_be_added_to_a_time_that_a_kubelet_wrote(text: str, *, is_past: bool) -> None:
    """A kubelet writes the status of its Node and pods, and an exception would stop disruption of all other nodes."""
    instant, longest = from_epoch(epoch_seconds(text)), timedelta(seconds=MAX_SECONDS)
    assert instant is not None
    assert instant - longest < instant < instant + longest
    assert (instant < AT) is is_past


def test_no_other_code_gives_a_time_in_a_sentence_a_form_of_its_own() -> None:
    own_forms = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for folder in ("tenon", "workflows", "activities", "worker", "cli")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path.name != "timestamps.py"
        for line in path.read_text().splitlines()
        if ANOTHER_FORM.search(line)
    ]
    assert own_forms == []


def test_no_other_code_converts_seconds_since_the_epoch() -> None:
    """Without a zone, the result would be in that of the machine."""
    converting = [
        str(path.relative_to(ROOT))
        for folder in ("tenon", "workflows", "activities", "worker", "cli")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "fromtimestamp(" in path.read_text()
    ]
    assert converting == ["tenon/kube/timestamps.py"]


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-03-01T12:00:00Z", datetime(2026, 3, 1, 12, tzinfo=UTC)),
        ("2026-03-01t12:00:00.25z", datetime(2026, 3, 1, 12, 0, 0, 250_000, UTC)),
        ("2026-03-01T12:00:00-14:00", datetime(2026, 3, 2, 2, tzinfo=UTC)),
    ],
)
def test_what_users_write_as_a_time_is_read_as_what_is_stored(text: str, instant: datetime) -> None:
    assert rfc3339(text) == parse_instant(text) == instant


@pytest.mark.parametrize(
    "value",
    ["2026-03-01", "2026-03-01T12:00:00", "20260301T120000Z", "2026-02-30T12:00:00Z", "2026-03-01T24:00:00Z", "noon", 1,
     "9999-12-31T23:59:59-14:00", datetime(2026, 3, 1)],  # noqa: DTZ001
)  # fmt: skip
def test_what_the_api_server_does_not_take_for_a_time_is_refused(value: object) -> None:
    """A time without a zone would depend on the machine, and no sentence can say one after the year 9999."""
    with pytest.raises(ValueError, match="is not a time such as 2026-01-31T12:00:00Z"):
        rfc3339(value)


def test_a_node_is_not_kept_until_a_time_that_no_sentence_can_say() -> None:
    """Its workflow says it in UTC, and an exception there would stop the workflow."""
    assert time_text(Keep.model_validate({"until": "2026-03-01T12:00:00+02:00"}).until) == "2026-03-01 10:00:00 UTC"
    assert Keep.model_validate({"until": "2026-03-01T12:00:00"}).until == datetime(2026, 3, 1, 12, tzinfo=UTC)
    with pytest.raises(ValidationError, match="is out of range: name a time of the years 1 to 9999"):
        Keep.model_validate({"until": "9999-12-31T23:59:59-05:00"})
