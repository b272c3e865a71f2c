"""Reads JSON directly: `kubectl get -o json` prints large documents, which are many times slower to read as YAML."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import isinf
from typing import Any


def read_json(text: str, deepest: int) -> Any | None:
    """Return the JSON object in a text.

    Return None if it is not one or exceeds a limit; the YAML reader then explains why.
    """
    if not text.lstrip().startswith("{"):
        return None
    try:
        value = json.loads(text, object_pairs_hook=_mapping, parse_constant=_refuse, parse_float=_number)
    except (ValueError, RecursionError):
        return None
    return value if _within(value, deepest) else None


def _mapping(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise ValueError("a key is given twice")
    return mapping


def _refuse(text: str) -> Any:
    raise ValueError(text)


def _number(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise ValueError(text)
    return number


def _within(value: Any, deepest: int) -> bool:
    """True if nothing nests deeper than ``deepest``."""
    level = [value]
    for _ in range(deepest + 1):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return True
    return False
