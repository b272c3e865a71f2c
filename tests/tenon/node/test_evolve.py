"""Changed copies of immutable models: names and types are checked."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from tenon.evolve import evolve
from tenon.node.state import Leave

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_changed_copy_leaves_the_model_as_it_is() -> None:
    leave = Leave(reason="expired", asked_at=NOW)
    assert evolve(leave, force=True) == Leave(reason="expired", asked_at=NOW, force=True)
    assert leave == Leave(reason="expired", asked_at=NOW)


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError, match="Leave has no field forced, raeson"):
        evolve(Leave(reason="expired", asked_at=NOW), raeson="drain", forced=True)


@pytest.mark.parametrize("value", ["yes", 1, None])
def test_a_value_of_another_type_is_refused(value: object) -> None:
    with pytest.raises(ValidationError):
        evolve(Leave(reason="expired", asked_at=NOW), force=value)


def test_what_was_never_stated_stays_unstated() -> None:
    assert evolve(Leave(reason="expired", asked_at=NOW), detail="after 30 days").model_dump(exclude_unset=True) == {
        "reason": "expired",
        "asked_at": NOW,
        "detail": "after 30 days",
    }
