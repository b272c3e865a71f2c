"""Says in a sentence what pydantic found wrong with a field of a manifest.

Its own messages are about Python's types. Who writes a manifest knows YAML.
"""

from __future__ import annotations

import math
import re
from typing import Any

from tenon.apis.base import FaultKind
from tenon.apis.ec2launch import SIZE_PATTERN

_SENTENCES = {
    "missing": "is required",
    "string_type": "is not a string",
    "int_type": "is not a whole number",
    "bool_type": "is neither true nor false",
    "list_type": "is not a list",
    "dict_type": "is not a mapping",
    "model_type": "is not a mapping",
    "model_attributes_type": "is not a mapping",
    "string_too_short": "is empty",
    "too_short": "is an empty list",
}
_QUOTES = {
    "string_type": ": put it in quotes",
    "int_type": ": write it without quotes",
    "bool_type": ": write it without quotes",
}
"""What to do about it, if quotes are the cause."""
_KINDS = {
    "missing": FaultKind.MISSING,
    "extra_forbidden": FaultKind.UNKNOWN,
    "list_type": FaultKind.NO_LIST,
    **dict.fromkeys(("literal_error", "string_pattern_mismatch", "value_error"), FaultKind.VALUE),
}
"""By the type of pydantic's error."""
_NOT_IN_QUOTES = {"int_type": r"\s*-?[0-9]+\s*", "bool_type": r"(?i)\s*(true|false)\s*"}
"""What a value in quotes looks like if removing the quotes would make it valid."""
_SIZE_HINT = "write a whole number with Gi, Ti, G or T, such as 100Gi; the largest is 64T"


def sentence_of(fault: Any) -> str:
    """Return the sentence for an error of pydantic."""
    kind, value = fault["type"], fault["input"]
    if kind == "string_pattern_mismatch":
        if fault["ctx"]["pattern"] == SIZE_PATTERN:
            return f"{str(value)[:80]!r} is not a volume size: {_SIZE_HINT}"
        return f"{str(value)[:80]!r} does not match {fault['ctx']['pattern']}"
    if kind == "literal_error":
        shown = repr(value[:80]) if isinstance(value, str) else "a value of another kind"
        return f"{shown} is not one of {fault['ctx']['expected'].replace(' or ', ', ')}"
    if kind == "string_type" and fault["loc"][-1] == "volumeSize":
        return f"is not a volume size: {_SIZE_HINT}"
    if value == math.inf:  # `as_stored` makes it of an integer
        return "does not fit into 64 bits: write a smaller number"
    if kind in _SENTENCES:
        unquoted = _NOT_IN_QUOTES.get(kind)
        advises = unquoted is None or (isinstance(value, str) and re.fullmatch(unquoted, value) is not None)
        return f"{_SENTENCES[kind]}{_QUOTES.get(kind, '') if advises else ''}"
    return str(fault["msg"]).removeprefix("Value error, ").replace("Input should be", "must be")


def kind_of(fault: Any) -> FaultKind:
    """Return the kind of an error of pydantic."""
    return _KINDS.get(fault["type"], FaultKind.OTHER)
