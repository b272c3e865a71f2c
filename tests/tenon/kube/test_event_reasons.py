"""Every event has its line in docs/events.md, with its type, and none is listed that Tenon does not publish."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tenon.kube.event_reasons import ConditionEvent, EventReason


def test_every_listed_event_is_published() -> None:
    """mypy refuses an event that is not listed."""
    texts = [path.read_text() for floor in ("tenon", "activities", "worker") for path in Path(floor).rglob("*.py")]
    used = set(re.findall(r"EventReason\.([A-Z_]+)", "\n".join(texts)))
    assert set(EventReason.__members__) - used == set()


def test_a_reason_without_a_meaning_is_refused() -> None:
    create = EventReason._new_member_  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="meaning"):
        create(EventReason, "Polished", "Normal", "Node")


def test_an_event_of_a_condition_has_its_reason_as_text() -> None:
    assert (ConditionEvent("AMINotFound"), ConditionEvent("AMINotFound").type) == ("AMINotFound", "Warning")
