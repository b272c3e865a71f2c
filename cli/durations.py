"""Durations as people write them on a command line: those of settings, and also whole days."""

from __future__ import annotations

import re
from datetime import timedelta

from worker.settings import parse_duration
from worker.settings.kinds import MAX_DURATION

_DAYS = re.compile(r"(\d{1,9})d")
MAX_DAYS = MAX_DURATION // timedelta(days=1)


def duration_of(text: str) -> timedelta:
    """Return the duration that a text such as ``90s``, ``1h30m`` or ``7d`` says. Settings take no days, as Karpenter's.

    Raises:
        ValueError: it says none, or one of more than a hundred years.
    """
    days = _DAYS.fullmatch(text)
    if days is None:
        return parse_duration(text)
    if int(days[1]) > MAX_DAYS:
        raise ValueError(f"{text!r} is too long for a duration: the maximum is {MAX_DAYS}d, a hundred years")
    return timedelta(days=int(days[1]))
