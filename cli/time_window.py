"""Reads the times of ``--since`` and ``--until``: how long ago, or when."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import typer

from tenon.kube.timestamps import parse_instant

_AGO = re.compile(r"(\d+)([wdhms])")
_UNITS = {"w": "weeks", "d": "days", "h": "hours", "m": "minutes", "s": "seconds"}


def instant_of(text: str, now: datetime) -> datetime:
    """Return the time that a duration such as ``30d`` or ``1d12h`` ago was, or a time in RFC 3339.

    Raises:
        BadParameter: the text is neither.
    """
    parts = _AGO.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        try:
            return now - sum((timedelta(**{_UNITS[unit]: int(number)}) for number, unit in parts), timedelta())
        except OverflowError:
            return datetime.min.replace(tzinfo=UTC)
    instant = parse_instant(text)
    if instant is None:
        raise typer.BadParameter(f"{text!r} is no time: write it like 30d, 12h or 2026-01-31T12:00:00Z")
    return instant
