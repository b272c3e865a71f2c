"""The window that ``--since``, ``--from`` and ``--to`` name."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tenon.errors import TenonError
from tenon.kube.timestamps import parse_instant, time_text
from worker.settings import parse_duration


class CostError(TenonError):
    """The cost cannot be said. The message is one sentence."""


@dataclass(frozen=True, slots=True)
class CostWindow:
    """The time that is asked about."""

    since: datetime
    until: datetime
    is_now: bool
    """Whether it ends now."""


def read_window(since: str | None, from_: str | None, to: str | None, now: datetime) -> CostWindow | None:
    """Return the window that options name; None for now.

    Raises:
        CostError: they cannot be read, or name no time that has passed.
    """
    if since is not None and from_ is not None:
        raise CostError("--since and --from both name the start of the window: give one of them.")
    if since is None and from_ is None:
        if to is not None:
            raise CostError("--to is the end of a window: name its start with --since or --from.")
        return None
    until = now if to is None else _time("--to", to)
    start = _before(until, since) if since is not None else _time("--from", from_ or "")
    if not start < min(until, now):
        raise CostError(f"The window from {time_text(start)} to {time_text(until)} has no time in the past.")
    return CostWindow(start, min(until, now), is_now=until >= now)


def _before(until: datetime, text: str) -> datetime:
    try:
        if text.endswith("d") and text[:-1].isdecimal():
            return until - timedelta(days=int(text[:-1]))
        return until - parse_duration(text)
    except (ValueError, OverflowError):
        raise CostError(f"--since {text} is not a duration: write one such as 90m, 24h or 30d.") from None


def _time(option: str, text: str) -> datetime:
    instant = parse_instant(text)
    if instant is None:
        raise CostError(f"{option} {text} is not a time: write one such as 2026-01-31 or 2026-01-31T12:00:00Z.")
    return instant.astimezone(UTC)
