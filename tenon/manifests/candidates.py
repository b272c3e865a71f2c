"""What somebody may have meant by a value that is refused: each guess is only taken when it makes the fault go away."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from tenon.apis.duration import NEVER_TEXT
from tenon.manifests.schemas import nearest

RENAMED = {"WhenUnderutilized": "WhenEmptyOrUnderutilized", "Balance": "Balanced"}
"""Values that have another name in v1."""
_PART = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]+)\s*")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_SECONDS |= {"sec": 1, "secs": 1, "second": 1, "seconds": 1, "min": 60, "mins": 60, "minute": 60, "minutes": 60}
_SECONDS |= {"hr": 3600, "hrs": 3600, "hour": 3600, "hours": 3600, "day": 86400, "days": 86400}
_LONGEST = 40


def candidates(value: Any, written: str, choices: Sequence[str]) -> Iterator[Any]:
    """Values that may have been meant, the likeliest first. ``written`` is the value as it stands in the file."""
    if isinstance(value, bool):
        yield "true" if value else "false"
        return
    if isinstance(value, (int, float)):
        yield written or str(value)
        if value >= 0:
            yield f"{value}s"
        if isinstance(value, float) and value.is_integer():
            yield int(value)
        return
    if not isinstance(value, str) or len(value) > 400:
        if isinstance(value, dict) and value:
            yield [value]
        return
    near = RENAMED.get(value) or nearest(value, choices)
    if near in choices:
        yield near
    text = value.strip()
    if text != value:
        yield text
    if re.fullmatch(r"-?[0-9]{1,18}", text):
        yield int(text)
    if text.casefold() in ("true", "false"):
        yield text.casefold() == "true"
    yield from _durations(text)
    if text.lower() != text:
        yield text.lower()
    yield [value]


def _durations(text: str) -> Iterator[str]:
    if text.casefold() == NEVER_TEXT.casefold():
        yield NEVER_TEXT
    if re.fullmatch(r"[0-9]{1,9}", text):
        yield f"{text}s"
    if len(text) > _LONGEST or _PART.sub("", text):
        return
    total = 0.0
    for number, unit in _PART.findall(text):
        size = _SECONDS.get(unit if unit in _SECONDS else unit.casefold())
        if size is None:
            return
        total += float(number) * size
    if total != int(total) or total > 10**12:
        return
    seconds = int(total)
    hours, minutes = divmod(seconds // 60, 60)
    parts = [f"{number}{unit}" for number, unit in ((hours, "h"), (minutes, "m"), (seconds % 60, "s")) if number]
    yield "".join(parts) or "0s"
