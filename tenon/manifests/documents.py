"""Splits manifest files into documents and objects, and keeps the text and line of each field."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tenon.apis.json_object import JsonObject, field_at
from tenon.manifests.faults import one_line
from tenon.manifests.paths import Path
from tenon.manifests.source_map import Lines, SourceRange, find_documents
from tenon.manifests.yaml_scalars import UnreadableDocumentError
from tenon.manifests.yaml_values import read_documents

_MAX_SIZE = 100_000
"""Maximum size, in characters, of a document in which indentations are tried."""
_INDENTED = re.compile(r"[ \t]*\t[ \t]*(?=\S)")
_LEVELS = re.compile(r"^ *(?:- +)*(?=\S)", re.MULTILINE)
_NEXT = re.compile(r"^(---|\.\.\.)(\s|$)", re.MULTILINE)


def without_tab(lines: Lines, start: int, number: int) -> str | None:
    """Return the line indented with spaces. Return None if no tab indents it or if several indentations fit.

    Args:
        lines: the whole text.
        start: offset where the line's document begins.
        number: the line number, from 1.
    """
    if number > len(lines.breaks) + 1:
        return None  # the parser reports a missing end on the line after the last one
    first, last = lines.bounds(number)
    tabbed = _INDENTED.match(lines.text, first, last)
    later = _NEXT.search(lines.text, last)
    end = later.start() if later else len(lines.text)
    if tabbed is None or end - start > _MAX_SIZE:
        return None
    before, rest = lines.text[start:first], lines.text[tabbed.end() : last].rstrip()
    behind = lines.text[last:end]
    levels = {len(match[0]) for match in _LEVELS.finditer(before + behind)} - {0}
    fitting: dict[str, int] = {}
    for level in sorted(levels)[:20]:
        match = [value for _, value in read_documents(f"{before}{' ' * level}{rest}{behind}") if value is not None]
        if len(match) == 1 and not isinstance(match[0], UnreadableDocumentError):
            fitting.setdefault(json.dumps(match[0]), level)
    if len(fitting) != 1:
        return None
    return " " * next(iter(fitting.values())) + rest


_MAX_LIST_DEPTH = 3
_LINE = re.compile(r"line (\d+)(, column \d+)?: ")


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A fault or a warning, with its location."""

    file: str
    line: int
    """From 1; 0 for the file as a whole."""
    path: str
    sentence: str
    fixed_lines: tuple[str, ...] = ()
    """The corrected line or lines; empty if no correction can be derived."""
    subject: str = ""
    """``Kind name``."""
    warning: bool = False

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return ": ".join(part for part in (where, self.path, self.sentence) if part)


def as_shown(line: str) -> str:
    """Format a corrected line for display. It keeps its indentation, which is present only if that was the fault."""
    return line[: len(line) - len(line.lstrip(" "))] + one_line(line)


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document of a file."""

    file: str
    value: Any
    lines: Lines
    start: int
    end: int
    root: SourceRange | None

    @property
    def text(self) -> str:
        """The document's source text, including the comments around it."""
        return self.lines.text[self.start : self.end]

    @property
    def is_json(self) -> bool:
        """True if the document is in flow style, where comments are not possible."""
        return self.root is None or self.root.flow


@dataclass(frozen=True, slots=True)
class Item:
    """An object in a document: either the whole document or one item of a list."""

    document: Document
    body: JsonObject
    place: SourceRange | None
    prefix: Path = ()
    """Path of the object within its document."""

    @property
    def kind(self) -> str:
        """The object's kind, or an empty string."""
        kind = self.body.get("kind")
        return kind if isinstance(kind, str) else ""

    @property
    def api_version(self) -> str:
        """The object's apiVersion, or an empty string."""
        version = self.body.get("apiVersion")
        return version if isinstance(version, str) else ""

    @property
    def name(self) -> str:
        """The object's name, or an empty string."""
        name = field_at(self.body, "metadata", "name")
        return name if isinstance(name, str) else ""

    @property
    def subject(self) -> str:
        """``Kind name``."""
        return " ".join(part for part in (self.kind, self.name) if part)

    def place_at(self, path: Sequence[str | int]) -> tuple[SourceRange | None, int]:
        """Return the place of a field, or of its nearest parent in the text, and the length of the path to it."""
        place, length = self.place, 0
        for part in path:
            inner = place.inside(part) if place is not None else None
            if inner is None:
                break
            place, length = inner, length + 1
        return place, length

    def line_of(self, path: Sequence[str | int]) -> int:
        """Line of a field, or of its nearest parent in the text."""
        place, _ = self.place_at(path)
        return self.document.lines.number(place.begin if place else self.document.start)


def read(file: str, text: str) -> tuple[list[Document], list[Diagnostic]]:
    """Return the documents of a file and a finding for each unreadable one. An empty document's value is None."""
    lines = Lines(text)
    stretches = find_documents(text)
    documents, findings = [], []
    for number, value in read_documents(text):
        stretch = stretches[number - 1] if number <= len(stretches) else None
        start, end = (stretch.start, stretch.end) if stretch else (0, len(text))
        if isinstance(value, UnreadableDocumentError):
            value_text = str(value)
            place = _LINE.match(value_text)
            line = int(place[1]) if place else lines.number(start)
            fixed_lines = without_tab(lines, start, line) if place else None
            findings.append(
                Diagnostic(
                    file,
                    line,
                    "",
                    value_text[place.end() :] if place else value_text,
                    (fixed_lines,) if fixed_lines else (),
                )
            )
        else:
            documents.append(Document(file, value, lines, start, end, stretch.root if stretch else None))
    return documents, findings


def items(document: Document, findings: list[Diagnostic]) -> Iterator[Item]:
    """Return the objects of a document: itself, or the items of a list. Anything else is added to ``findings``."""
    if document.value is not None:
        yield from _opened(Item(document, document.value, document.root), findings, _MAX_LIST_DEPTH)


def _opened(item: Item, findings: list[Diagnostic], deeper: int) -> Iterator[Item]:
    value: Any = item.body
    if not isinstance(value, dict):
        type_text = {list: "a list", str: "a text", type(None): "nothing"}.get(type(value), "a single value")
        findings.append(_finding(item, f"is {type_text}, not a Kubernetes object"))
        return
    if not (item.kind.endswith("List") and ("items" in value or item.kind == "List")):
        yield item
        return
    inside = value.get("items")
    if inside is not None and not isinstance(inside, list):
        findings.append(_finding(item, "is not a list", "items"))
    elif deeper == 0:
        findings.append(_finding(item, "lists are nested in lists too deeply", "items"))
    else:
        defaults = (
            {} if item.kind == "List" else {"apiVersion": item.api_version, "kind": item.kind.removesuffix("List")}
        )
        for index, inner in enumerate(inside or ()):
            place, length = item.place_at(("items", index))
            body = {**defaults, **inner} if isinstance(inner, dict) else inner
            list_item = Item(item.document, body, place if length == 2 else None, (*item.prefix, "items", index))
            yield from _opened(list_item, findings, deeper - 1)


def _finding(item: Item, sentence: str, *path: str) -> Diagnostic:
    return Diagnostic(item.document.file, item.line_of(path), ".".join(path), sentence)
