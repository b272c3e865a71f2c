"""Parts of the sentences that people read: counts, the first few names, durations, the name that was meant."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from difflib import get_close_matches

_FIGURE = r"-?[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?"
_AN_HOUR = re.compile(rf"\$({_FIGURE}) an hour|({_FIGURE}) \$/h")
_BRACKETS = re.compile(r"\[([^\[\]]*)\] \(")
_AMOUNT = re.compile(rf"\$({_FIGURE})")


def shortened(text: str, most: int) -> str:
    """Return the text with at most so many characters, cut between two words."""
    if len(text) <= most:
        return text
    whole, space, _ = text[:most].rpartition(" ")
    return (whole.rstrip(",;:") if space else text[: most - 1]) + "…"


def for_temporal_ui(text: str) -> str:
    """Return the text as Temporal's UI shows it in whole.

    It takes what two $ enclose for a formula, so it gets '0.12 USD/h' for '$0.12 an hour'; and brackets before a
    parenthesis for a link, so they are left out: 'In a, b (available: c)'.
    """
    text = _BRACKETS.sub(r"\1 (", text)
    return _AMOUNT.sub(r"\1 USD", _AN_HOUR.sub(lambda match: f"{match[1] or match[2]} USD/h", text))


def counted(number: int, noun: str) -> str:
    """Return the number with its noun: '1 pod', '2 pods'."""
    return f"{number} {plural(number, noun)}"


def plural(number: int, noun: str) -> str:
    """Return the noun without its number: 'pod' for one, 'pods' for others."""
    return noun if number == 1 else f"{noun}s"


def first_few(names: Sequence[str], most: int) -> str:
    """Return the first names, and how many others there are: 'a, b and 3 more'."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def first_clauses(clauses: Sequence[str], most: int) -> str:
    """Return the first clauses, and how many others there are: 'a waits; b waits; and 3 more'."""
    more = [f"and {len(clauses) - most} more"] if len(clauses) > most else []
    return "; ".join([*clauses[:most], *more])


def bullets(items: Sequence[str], most: int) -> list[str]:
    """Return the first items as a list in Markdown, and how many others there are: '- a', '- b', '- and 3 more'."""
    more = [f"- and {len(items) - most} more"] if len(items) > most else []
    return [*(f"- {item}" for item in items[:most]), *more]


def listed(clauses: Sequence[str]) -> str:
    """Return the clauses in one: 'a', 'a and b', 'a, b, and c'."""
    if len(clauses) < 3:
        return " and ".join(clauses)
    return f"{', '.join(clauses[:-1])}, and {clauses[-1]}"


def lasting(time: timedelta) -> str:
    """Return a duration in its two largest units: '15s', '3m', '2h5m', '3d4h'."""
    seconds = max(0, round(time.total_seconds()))
    units = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
    first = next((place for place, (_, size) in enumerate(units) if seconds >= size), len(units) - 1)
    parts = []
    for name, size in units[first : first + 2]:
        number, seconds = divmod(seconds, size)
        if number:
            parts.append(f"{number}{name}")
    return "".join(parts) or "0s"


def nearest(unknown_name: str, known_names: Sequence[str]) -> str | None:
    """The known name closest to the given one, or None if none is similar."""
    folded = {name.casefold(): name for name in known_names}
    if unknown_name.strip().casefold() in folded:
        return folded[unknown_name.strip().casefold()]
    matches = get_close_matches(unknown_name, known_names, 1, 0.75)
    return matches[0] if matches else None
