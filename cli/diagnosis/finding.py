"""A finding of `tenon doctor`: what was checked, and what to do if it is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    """Tenon works, but not as one would expect."""
    FAULT = "fault"
    """Tenon cannot do its work."""
    UNKNOWN = "unknown"
    """The check could not be made, as for lack of a right."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    check: str
    """Two or three words: what was checked."""
    state: State
    sentence: str
    """What was found."""
    remedy: str = ""
    """What to do; empty if nothing is to be done."""


def ok(check: str, sentence: str) -> Finding:
    """A check that found nothing wrong."""
    return Finding(check, State.OK, sentence)


def warning(check: str, sentence: str, remedy: str) -> Finding:
    """A check that found something odd."""
    return Finding(check, State.WARNING, sentence, remedy)


def fault(check: str, sentence: str, remedy: str) -> Finding:
    """A check that found what keeps Tenon from working."""
    return Finding(check, State.FAULT, sentence, remedy)


def unknown(check: str, sentence: str, remedy: str = "") -> Finding:
    """A check that could not be made."""
    return Finding(check, State.UNKNOWN, sentence, remedy)
