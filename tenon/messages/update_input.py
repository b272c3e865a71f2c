"""Reads the input of an update, which people type, and says in a sentence what is wrong with it.

Temporal's SDK answers a missing or misspelled input with the text of a Python exception.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TypeVar

from pydantic import ValidationError

from tenon.errors import TenonError
from tenon.messages.base import Message
from tenon.sentences import shortened

MAX_QUOTED = 80
"""How many letters of a wrong value a sentence has."""

Input = TypeVar("Input", bound=Message)


class UpdateInputError(TenonError):
    """The input of an update is missing or wrong. The message says in what, and what to write."""


def read_input(update: str, model: type[Input], inputs: Sequence[object], hint: str) -> Input:
    """Return the input of an update.

    Args:
        update: its name.
        model: what it takes.
        inputs: what was sent, decoded from JSON.
        hint: a sentence with an example, or with who sends the update.

    Raises:
        UpdateInputError: the input is missing or wrong.
    """
    if len(inputs) > 1:
        raise UpdateInputError(f"Update {update} takes one input, and {len(inputs)} were sent. {hint}")
    if not inputs or inputs[0] is None:
        raise UpdateInputError(f"Update {update} needs an input. {hint}")
    (value,) = inputs
    if not isinstance(value, dict):
        raise UpdateInputError(f"The input of update {update} is {_quoted(value)}, not a JSON object. {hint}")
    try:
        return model.model_validate_json(json.dumps(value))
    except ValidationError as error:
        raise UpdateInputError(f"The input of update {update} {_what_is_wrong(error)}. {hint}") from None


def _what_is_wrong(error: ValidationError) -> str:
    """Say what is wrong with an object, in a clause: the fields that it lacks, or its first wrong value."""
    problems = error.errors(include_url=False)
    absent = [_field(problem["loc"]) for problem in problems if problem["type"] == "missing"]
    if absent:
        return f"lacks {' and '.join(absent)}"
    first = problems[0]
    problem = f"{first['msg'][:1].lower()}{first['msg'][1:]}"
    return f"has {_quoted(first['input'])} as {_field(first['loc'])}: {problem}"


def _field(path: Sequence[int | str]) -> str:
    return ".".join(map(str, path))


def _quoted(value: object) -> str:
    return shortened(json.dumps(value, default=str), MAX_QUOTED)
