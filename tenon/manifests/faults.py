"""Faults of an input, each with its file, document, object, field and explanation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MAX_TEXT = 300


@dataclass(frozen=True, slots=True)
class Source:
    """Where an object was read: a file and a document number from 1, or 0 for the file as a whole."""

    file: str
    document: int = 0

    def __str__(self) -> str:
        return f"{self.file}: document {self.document}" if self.document else self.file


@dataclass(frozen=True, slots=True)
class ManifestError:
    """One fault."""

    source: Source
    text: str
    subject: str = ""
    """``Kind namespace/name``; empty if the fault belongs to no known object."""
    path: str = ""

    def __str__(self) -> str:
        return one_line(": ".join(part for part in (str(self.source), self.subject, self.path, self.text) if part))


def in_order(faults: Sequence[ManifestError]) -> list[ManifestError]:
    """Sort faults by file, in the order the files were read, and then by document."""
    files = {file: number for number, file in enumerate(dict.fromkeys(fault.source.file for fault in faults))}
    return sorted(faults, key=lambda fault: (files[fault.source.file], fault.source.document))


def one_line(text: str) -> str:
    """Return the text without line breaks and control characters, truncated to twice ``MAX_TEXT`` characters."""
    readable = "".join(character if character.isprintable() else " " for character in text)
    shown = " ".join(readable.split())
    return shown if len(shown) <= MAX_TEXT * 2 else f"{shown[: MAX_TEXT * 2]}..."
