"""What is wrong with an input, said so that a person finds the place: file, document, object, field, sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LONGEST = 300


@dataclass(frozen=True, slots=True)
class Source:
    """Where an object was read: a file and the number of its document, from 1; 0 is the file as a whole."""

    file: str
    document: int = 0

    def __str__(self) -> str:
        return f"{self.file}: document {self.document}" if self.document else self.file


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong."""

    source: Source
    what: str
    subject: str = ""
    """``Kind namespace/name``; empty where no object could be told."""
    path: str = ""

    def __str__(self) -> str:
        return one_line(": ".join(part for part in (str(self.source), self.subject, self.path, self.what) if part))


def in_order(faults: Sequence[Fault]) -> list[Fault]:
    """The faults file by file, in the order in which the files were read, and document by document."""
    files = {file: number for number, file in enumerate(dict.fromkeys(fault.source.file for fault in faults))}
    return sorted(faults, key=lambda fault: (files[fault.source.file], fault.source.document))


def one_line(text: str) -> str:
    """The text without line breaks and control characters, cut where it grows out of hand."""
    readable = "".join(character if character.isprintable() else " " for character in text)
    shown = " ".join(readable.split())
    return shown if len(shown) <= LONGEST * 2 else f"{shown[: LONGEST * 2]}..."
