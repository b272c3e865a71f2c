"""JSON objects, the form of a Kubernetes object before a model reads it: their alias, their parser and their fields."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

JsonObject = dict[str, Any]


def parse_json_object(text: object) -> JsonObject | None:
    """The JSON object in a text that anyone may have written, such as an annotation; None if it holds anything else.

    Text nested too deeply for the parser, and unpaired surrogates, which no answer can carry, count as anything else.
    """
    if not isinstance(text, str):
        return None
    try:
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def field_at(body: object, *path: str) -> Any:
    """Return the field at this path of an object that nothing has validated; None if it, or a parent, is missing."""
    for name in path:
        body = body.get(name) if isinstance(body, Mapping) else None
    return body
