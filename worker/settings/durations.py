"""Durations in Go's notation. Errors about bounds use the same notation."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

NEVER = "Never"
SHORTEST_WAIT = timedelta(seconds=10)
MAX_DURATION = timedelta(hours=876_000)
"""A hundred years. A longer duration overflows dates, and Temporal cannot wait for it."""


def parse_duration(value: Any) -> timedelta:
    """Parse a Go duration such as ``10s`` or ``1m30s``, or a number of seconds.

    Raises:
        ValueError: the text is not a duration, or is longer than a hundred years.
    """
    if isinstance(value, timedelta):
        return value
    text = str(value).strip()
    parts = [(text, "s")] if re.fullmatch(r"\d+(?:\.\d+)?", text) else _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) not in (text, f"{text}s"):
        raise ValueError(f"{text!r} is not a duration: write it like 10s, 1m30s or 2h")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if seconds > MAX_DURATION.total_seconds():
        raise ValueError(f"{text!r} is too long for a duration: the maximum is 876000h, a hundred years")
    return timedelta(seconds=seconds)


def parse_wait(value: Any) -> timedelta | None:
    """Parse a timeout. Returns None, which means no timeout, for ``Never`` and ``0``.

    Raises:
        ValueError: the text is neither, or the timeout is shorter than `SHORTEST_WAIT`.
    """
    if value is None or str(value).strip().lower() == NEVER.lower():
        return None
    wait = parse_duration(value)
    if timedelta() < wait < SHORTEST_WAIT:
        raise ValueError(f"it must be at least {SHORTEST_WAIT.seconds}s; 0 or {NEVER} means no limit")
    return wait or None


def between(least: str, most: str = "") -> BeforeValidator:
    """Validate that a duration is within these bounds. Errors quote the bounds as an operator writes them."""

    def parse(value: Any) -> timedelta:
        duration = parse_duration(value)
        if duration < parse_duration(least) or (most and duration > parse_duration(most)):
            raise ValueError(f"it must be between {least} and {most}" if most else f"it must be at least {least}")
        return duration

    return BeforeValidator(parse)


def duration_text(value: timedelta) -> str:
    """The duration in the notation that `parse_duration` reads: ``1m30s``, ``0.5s``."""
    if value.microseconds:
        return f"{value.total_seconds():f}s"
    minutes, seconds = divmod(value.days * 86400 + value.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    parts = (f"{hours}h" if hours else "", f"{minutes}m" if minutes else "", f"{seconds}s" if seconds else "")
    return "".join(parts) or "0s"


Wait = Annotated[timedelta | None, BeforeValidator(parse_wait)]
