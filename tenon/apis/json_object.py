"""The single alias for a JSON object, the form of a Kubernetes object before a model reads it, and its parser."""

from __future__ import annotations

import json
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
