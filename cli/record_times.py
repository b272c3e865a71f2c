"""The options of commands that look back: since when, and until when."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Annotated

import typer

from tenon.kube.timestamps import parse_instant
from worker.settings import parse_duration

_LONG = re.compile(r"(\d{1,5})([dw])")
_DAYS = {"d": 1, "w": 7}
SinceOption = Annotated[
    str, typer.Option("--since", metavar="TIME", help="How far back, such as 12h or 30d, or a date: 2026-11-27T06:00.")
]
UntilOption = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="The end, in the same form; default: now.")
]


def instant_of(text: str, now: datetime) -> datetime:
    """Return the time that an option means: so long before now, or a date, which is in UTC unless it has a zone.

    Raises:
        ValueError: it is neither.
    """
    if long := _LONG.fullmatch(text):
        return now - timedelta(days=int(long[1]) * _DAYS[long[2]])
    if (at := parse_instant(text)) is not None:
        return at
    try:
        return now - parse_duration(text)
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is no time: write 12h, 30d, 2w, or a date such as 2026-11-27T06:00") from None
