"""How the page writes instants, money and shares."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(instant: datetime | None) -> str:
    """Return an instant in UTC to the minute: 'Jan 2, 13:45'; empty for None."""
    if instant is None:
        return ""
    utc = instant.astimezone(UTC)
    return f"{utc:%b} {utc.day}, {utc:%H:%M}"


def hourly(dollars: float | None) -> str:
    """Return a price an hour; a question mark if it is not known."""
    return "$?" if dollars is None else f"${dollars:,.4f}" if abs(dollars) < 10 else f"${dollars:,.2f}"


def dollars_text(dollars: float) -> str:
    """Return a sum of dollars."""
    sign = "-" if dollars < 0 else ""
    amount = abs(dollars)
    return f"{sign}${amount:,.0f}" if amount >= 1000 else f"{sign}${amount:,.2f}"


def axis_money(dollars: float) -> str:
    """Return a round sum for the label of an axis."""
    return f"${dollars:,g}"
