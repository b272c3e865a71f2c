"""What a person reads whose update has a wrong input."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tenon.messages.command_approval import Refusal
from tenon.messages.node import Keep
from tenon.messages.rollout import RolloutOperator
from tenon.messages.update_input import UpdateInputError, read_input

HINT = 'For example: {"by": "ann"}.'


@pytest.mark.parametrize(
    ("model", "inputs", "sentence"),
    [
        (Keep, [], f"Update ask needs an input. {HINT}"),
        (Keep, [None], f"Update ask needs an input. {HINT}"),
        (Keep, [{}, {}], f"Update ask takes one input, and 2 were sent. {HINT}"),
        (Keep, ["ann"], f'The input of update ask is "ann", not a JSON object. {HINT}'),
        (Keep, [{"by": "ann"}], f"The input of update ask lacks until. {HINT}"),
        (RolloutOperator, [{}], f"The input of update ask lacks pool and by. {HINT}"),
        (
            Refusal,
            [{"by": "ann", "hours": "long"}],
            'The input of update ask has "long" as hours: input should be a valid number, unable to parse string as a '
            f"number. {HINT}",
        ),
        (Keep, [{"until": []}], f"The input of update ask has [] as until: input should be a valid datetime. {HINT}"),
    ],
)
def test_a_wrong_input_is_said_in_one_sentence_with_an_example(
    model: type[Any], inputs: list[object], sentence: str
) -> None:
    with pytest.raises(UpdateInputError) as refusal:
        read_input("ask", model, inputs, HINT)
    assert str(refusal.value) == sentence


def test_a_wrong_value_is_quoted_in_part() -> None:
    with pytest.raises(UpdateInputError) as refusal:
        read_input("ask", Keep, [{"until": "tomorrow " * 100}], HINT)
    assert len(str(refusal.value)) < 300


def test_an_input_is_read_as_temporal_sends_it() -> None:
    keep = read_input("keep", Keep, [{"until": "2030-01-31T18:00:00", "by": "ann", "unknown": 1}], HINT)
    assert keep == Keep(until=datetime(2030, 1, 31, 18, tzinfo=UTC), by="ann")
