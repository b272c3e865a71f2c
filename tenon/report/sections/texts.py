"""How the page writes instants, money and shares."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tenon.sentences import counted, lasting


def moment(instant: datetime | None) -> str:
    """Return an instant in UTC to the minute, in one line: 'Jan 2, 13:45'; empty for None."""
    if instant is None:
        return ""
    utc = instant.astimezone(UTC)
    return f"{utc:%b} {utc.day}, {utc:%H:%M}".replace(" ", "\N{NO-BREAK SPACE}")


def window_text(window: timedelta) -> str:
    """Return how long a window is, as what follows 'the last': '7 days', 'day', '36h'."""
    days = window / timedelta(days=1)
    if days == 1:
        return "day"
    return counted(int(days), "day") if days.is_integer() and days > 1 else lasting(window)


def axis_money(dollars: float) -> str:
    """Return a round sum for the label of an axis."""
    return f"${dollars:,g}"
