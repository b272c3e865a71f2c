"""The form of an answer: a headline, sections of lines that name their source, and what to do if nothing is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from tenon.kube.timestamps import format_instant, time_text

MAX_LINES = 60
"""The most lines of a section: an answer is one page."""


class FactSource(StrEnum):
    """Where a line comes from."""

    RECORD = "record"
    TEMPORAL = "Temporal"
    KUBERNETES = "Kubernetes"
    SIMULATION = "simulation"


@dataclass(frozen=True, slots=True)
class Line:
    """One fact."""

    text: str
    source: FactSource
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """The lines that answer one question."""

    question: str
    lines: Sequence[Line]


@dataclass(frozen=True, slots=True)
class Consulted:
    """A source that was asked, and what it said as a whole."""

    source: FactSource
    outcome: str
    """Such as '12 entries since 2026-01-01', or why it could not be read; without a period."""
    is_answer: bool = True
    """Whether the source could be asked, and answered."""


@dataclass(frozen=True, slots=True)
class Answer:
    """All that is known about one object."""

    kind: str
    """``node``, ``pod`` or ``nodepool``."""
    name: str
    headline: str
    sections: Sequence[Section]
    hints: Sequence[str] = ()
    """What to do to learn more; sentences without a period."""
    consulted: Sequence[Consulted] = ()

    @property
    def is_empty(self) -> bool:
        """Whether no source knows anything."""
        return not self.sections


def sections_of(questions: Iterable[tuple[str, Sequence[Line]]]) -> list[Section]:
    """Return the questions that have an answer, each shortened to `MAX_LINES`: the first line and the last ones."""
    return [Section(question, _shortened(lines)) for question, lines in questions if lines]


def _shortened(lines: Sequence[Line]) -> list[Line]:
    if len(lines) <= MAX_LINES:
        return list(lines)
    more = Line(f"... {len(lines) - MAX_LINES + 1} more", lines[1].source)
    return [lines[0], more, *lines[len(lines) - MAX_LINES + 2 :]]


def clock(at: datetime | None) -> str:
    """Format a time for people."""
    return time_text(at) if at is not None else "an unknown time"


def to_document(answer: Answer) -> dict[str, Any]:
    """Return the answer as JSON. The names of fields are for scripts: they only gain members."""
    return {
        "kind": answer.kind,
        "name": answer.name,
        "headline": answer.headline,
        "sections": [
            {
                "question": section.question,
                "lines": [
                    {"text": line.text, "source": line.source.value}
                    | ({"at": format_instant(line.at)} if line.at is not None else {})
                    for line in section.lines
                ],
            }
            for section in answer.sections
        ],
        "hints": list(answer.hints),
        "sources": [{"source": item.source.value, "outcome": item.outcome} for item in answer.consulted],
    }
