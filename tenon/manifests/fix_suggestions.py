"""Suggests values that the author may have meant. The caller keeps a suggestion only if it fixes the fault."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from tenon.apis.duration import NEVER_TEXT
from tenon.sentences import nearest

NO_LIST = "is not a list"
"""Sentence for a field that must hold a list."""
RENAMED = {"WhenUnderutilized": "WhenEmptyOrUnderutilized", "Balance": "Balanced"}
"""Values renamed in v1."""
_SIGNS = {"=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt", ">=": "Gte", "<=": "Lte"}
"""Operators by the symbols that people write for them."""
_PART = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]+)\s*")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_SECONDS |= {"sec": 1, "secs": 1, "second": 1, "seconds": 1, "min": 60, "mins": 60, "minute": 60, "minutes": 60}
_SECONDS |= {"hr": 3600, "hrs": 3600, "hour": 3600, "hours": 3600, "day": 86400, "days": 86400}
_MAX_LENGTH = 40
_SHARE = re.compile(r"[0-9]+\s+%")
_SIZE = re.compile(r"([1-9][0-9]*)\s*(?:([GT])(i?)b?)?", re.IGNORECASE)
_SIZED = "volumeSize"
_COUNTS_SECONDS = ("ttlSecondsAfterEmpty", "ttlSecondsUntilExpired", "evictionMaxPodGracePeriod")
"""Fields that hold a number of seconds."""


def candidates(name: str, value: Any, written: str, choices: Sequence[str], sentence: str) -> Iterator[Any]:
    """Yield possible replacements for a value, most likely first.

    Args:
        name: the field's name.
        value: the refused value.
        written: the value's source text, if it is unquoted; otherwise empty.
        choices: the strings that the field accepts; empty if it accepts any.
        sentence: the sentence that refuses the value. Some guesses fit only certain faults.
    """
    if isinstance(value, (bool, int, float)):
        yield from _for_single(name, value, written)
        if sentence == NO_LIST:
            yield [written or _own(value)]
        return
    if not isinstance(value, str) or len(value) > 400:
        if isinstance(value, dict) and value and sentence == NO_LIST:
            yield [value]
        return
    text = value.strip()
    if not text:
        return
    for near in (RENAMED.get(value), _SIGNS.get(text), nearest(value, choices)):
        if near in choices:
            yield near
    if text != value:
        yield text
    if name == _SIZED:
        yield from _sizes(text)
    if re.fullmatch(r"-?[0-9]{1,18}", text):
        yield int(text)
    if text.casefold() in ("true", "false"):
        yield text.casefold() == "true"
    if _SHARE.fullmatch(text):
        yield "".join(text.split())
    yield from _durations(text)
    if name in _COUNTS_SECONDS and (seconds := _seconds(text)) is not None:
        yield seconds
    if sentence.startswith(repr(value[:80])) and text.lower() != text:
        yield text.lower()
    if sentence == NO_LIST:
        yield [value]


def _for_single(name: str, value: bool | float, written: str) -> Iterator[Any]:
    """Replacements for a number or a boolean; most often its source text as a string."""
    own = _own(value)
    yield from dict.fromkeys((written or own, own))
    if not isinstance(value, bool):
        if name == _SIZED:
            yield from _sizes(written or own)
        if value >= 0:
            yield f"{value}s"
        if isinstance(value, float) and value.is_integer():
            yield int(value)


def _own(value: bool | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _sizes(text: str) -> Iterator[str]:
    """A volume size. A bare number means GiB, as in the AWS API."""
    if (size := _SIZE.fullmatch(text)) is not None:
        number, unit, binary = size[1], size[2], size[3]
        yield f"{number}{unit.upper()}{binary.lower()}" if unit else f"{number}Gi"


def _durations(text: str) -> Iterator[str]:
    if text.casefold() == NEVER_TEXT.casefold():
        yield NEVER_TEXT
    if re.fullmatch(r"[0-9]{1,9}", text):
        yield f"{text}s"
    seconds = _seconds(text)
    if seconds is None:
        return
    hours, minutes = divmod(seconds // 60, 60)
    parts = [f"{number}{unit}" for number, unit in ((hours, "h"), (minutes, "m"), (seconds % 60, "s")) if number]
    yield "".join(parts) or "0s"


def _seconds(text: str) -> int | None:
    """Parse a duration with units into seconds. Return None if it is not a duration or not whole seconds."""
    if not text or len(text) > _MAX_LENGTH or _PART.sub("", text):
        return None
    total = 0.0
    for number, unit in _PART.findall(text):
        size = _SECONDS.get(unit if unit in _SECONDS else unit.casefold())
        if size is None:
            return None
        total += float(number) * size
    return int(total) if total == int(total) and total <= 10**12 else None
