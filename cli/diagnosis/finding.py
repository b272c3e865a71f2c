"""A finding of `tenon doctor`: what was checked, and what to do if it is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FindingState(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    """Tenon works, but not as one would expect."""
    FAULT = "fault"
    """Tenon cannot do its work."""
    UNKNOWN = "unknown"
    """The check could not be made, as for lack of a right."""


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """The result of one check."""

    check: str
    """Two or three words: what was checked."""
    state: FindingState
    sentence: str
    """What was found."""
    remedy: str = ""
    """What to do; empty if nothing is to be done."""


def ok(check: str, sentence: str) -> DoctorFinding:
    """A check that found nothing wrong."""
    return DoctorFinding(check, FindingState.OK, sentence)


def warning(check: str, sentence: str, remedy: str) -> DoctorFinding:
    """A check that found something odd."""
    return DoctorFinding(check, FindingState.WARNING, sentence, remedy)


def fault(check: str, sentence: str, remedy: str) -> DoctorFinding:
    """A check that found what keeps Tenon from working."""
    return DoctorFinding(check, FindingState.FAULT, sentence, remedy)


def unknown(check: str, sentence: str, remedy: str = "") -> DoctorFinding:
    """A check that could not be made."""
    return DoctorFinding(check, FindingState.UNKNOWN, sentence, remedy)
