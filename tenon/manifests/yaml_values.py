"""Reads YAML as Kubernetes does, into plain JSON values, with bounds against hostile files.

It builds values from the parser's events instead of using a general loader. A general loader follows aliases without
bounds, reads nesting by recursion, turns timestamps into objects and silently accepts duplicate keys.

JSON is read directly: `kubectl get -o json` prints large documents, which are many times slower to read as YAML.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import isinf
from typing import Any, cast

import yaml

from tenon.manifests.yaml_scalars import UnreadableDocumentError, check_tag, scalar_value


def read_json(text: str, deepest: int) -> Any | None:
    """Return the JSON object in a text.

    Return None if it is not one or exceeds a limit; the YAML reader then explains why.
    """
    if not text.lstrip().startswith("{"):
        return None
    try:
        value = json.loads(text, object_pairs_hook=_mapping, parse_constant=_refuse, parse_float=_number)
    except (ValueError, RecursionError):
        return None
    return value if _within(value, deepest) else None


def _mapping(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise ValueError("a key is given twice")
    return mapping


def _refuse(text: str) -> Any:
    raise ValueError(text)


def _number(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise ValueError(text)
    return number


def _within(value: Any, deepest: int) -> bool:
    """True if nothing nests deeper than ``deepest``."""
    level = [value]
    for _ in range(deepest + 1):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return True
    return False


MAX_DEPTH = 100
"""Maximum nesting depth, far above that of any Kubernetes object."""
MAX_ALIASED = 200_000
"""Maximum number of values that all aliases of one document may stand for."""

_NO_NEW_DOCUMENT = "<document start>"
"""The parser misses this in text after a whole document, for example after a line ``...``."""

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(slots=True)
class _Open:
    """A list or mapping that is being read. ``weight`` is the number of values it stands for."""

    value: list[Any] | dict[str, Any]
    anchor: str | None
    weight: int = 1
    key: str | None = None
    merging: bool = False
    """True if the key is a bare ``<<``, which merges other mappings."""
    merged: list[dict[str, Any]] = field(default_factory=list)
    line: int = 0


def read_documents(text: str) -> Iterator[tuple[int, Any | UnreadableDocumentError]]:
    """Yield the number of each document, from 1, with its value or the error. An empty document's value is None.

    A YAML syntax error ends the text. Documents before it are returned. The document that contains the error is not,
    because the parser may have read only its beginning.
    """
    whole = read_json(text, MAX_DEPTH)
    if whole is not None:
        yield 1, whole
        return
    number = 0
    try:
        loader = _Loader(text)
    except yaml.YAMLError as error:
        yield 1, UnreadableDocumentError(_sentence(error, text))
        return
    try:
        loader.get_event()  # the start of the stream
        event = loader.get_event()
        while not isinstance(event, yaml.StreamEndEvent):
            number += 1
            value, ended = _document(loader)
            if ended:
                yield number, value
            event = loader.get_event()
            if not ended:
                yield number, value
    except UnreadableDocumentError as error:  # the following documents cannot be located reliably
        yield number, error
    except (yaml.YAMLError, UnicodeError) as error:
        yield max(1, number), UnreadableDocumentError(_sentence(error, text))
    finally:
        loader.dispose()


def _document(loader: Any) -> tuple[Any | UnreadableDocumentError, bool]:
    """Return the value, and whether the text ends the document explicitly with ``...``."""
    builder = _Builder()
    fault: UnreadableDocumentError | None = None
    while True:
        event = loader.get_event()
        if isinstance(event, yaml.DocumentEndEvent):
            return fault or builder.result, bool(event.explicit)
        if fault is None:
            try:
                builder.take(event)
            except UnreadableDocumentError as error:
                fault = error
        builder.count_depth(event, event.start_mark.line + 1)


class _Builder:
    """Builds one document from parser events."""

    def __init__(self) -> None:
        self.result: Any = None
        self._stack: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._aliased = 0
        self._depth = 0

    def count_depth(self, event: Any, line: int) -> None:
        """Track the nesting depth, also in documents that already failed.

        Raises:
            UnreadableDocumentError: the nesting is too deep.
        """
        if isinstance(event, (yaml.SequenceStartEvent, yaml.MappingStartEvent)):
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise UnreadableDocumentError(f"line {line}: lists and mappings nest deeper than {MAX_DEPTH}")
        elif isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
            self._depth -= 1

    def take(self, event: Any) -> None:
        """Add one event."""
        line = event.start_mark.line + 1
        if isinstance(event, yaml.ScalarEvent):
            value = scalar_value(event, line)
            text = event.value if value is None or isinstance(value, (bool, int, float)) else value
            merging = event.value == "<<" and event.tag is None and event.implicit[0]
            self._add(value, 1 + len(event.value) // 50, line, event.anchor, text, merging=merging)
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                open_here = any(item.anchor == event.anchor for item in self._stack)
                why = "refers to itself" if open_here else "names nothing before it"
                raise UnreadableDocumentError(f"line {line}: alias *{event.anchor} {why}")
            value, weight = self._anchors[event.anchor]
            self._aliased += weight
            if self._aliased > MAX_ALIASED:
                raise UnreadableDocumentError(f"line {line}: its aliases expand to more than {MAX_ALIASED} values")
            self._add(value, weight, line, None, value if isinstance(value, str) else None)
        elif isinstance(event, yaml.SequenceStartEvent):
            check_tag(event.tag, "seq", line)
            self._stack.append(_Open([], event.anchor, line=line))
        elif isinstance(event, yaml.MappingStartEvent):
            check_tag(event.tag, "map", line)
            self._stack.append(_Open({}, event.anchor, line=line))
        else:
            self._close(line)

    def _close(self, line: int) -> None:
        done = self._stack.pop()
        value = done.value
        if done.merged:
            own = cast("dict[str, Any]", value)
            for other in done.merged:
                for key, inherited in other.items():
                    own.setdefault(key, inherited)
        self._add(value, done.weight, line, done.anchor, None)

    def _add(
        self, value: Any, weight: int, line: int, anchor: str | None, text: str | None, *, merging: bool = False
    ) -> None:
        """Add a finished value to its parent. ``text`` is the value as a key; ``merging`` marks a bare ``<<``."""
        if anchor is not None:
            self._anchors[anchor] = (value, weight)
        if not self._stack:
            self.result = value
            return
        parent = self._stack[-1]
        parent.weight += weight
        if isinstance(parent.value, list):
            parent.value.append(value)
        elif parent.key is None:
            if text is None:
                raise UnreadableDocumentError(f"line {line}: a key is not a plain text")
            parent.key, parent.merging = text, merging
        elif parent.merging:
            parent.merged += _merged(value, line)
            parent.key, parent.merging = None, False
        else:
            if parent.key in parent.value:
                raise UnreadableDocumentError(
                    f"line {line}: key {parent.key[:80]!r} is given twice: remove one; kubectl takes the last"
                )
            parent.value[parent.key] = value
            parent.key = None


def _merged(value: Any, line: int) -> list[dict[str, Any]]:
    parts = value if isinstance(value, list) else [value]
    if not all(isinstance(part, dict) for part in parts):
        raise UnreadableDocumentError(f"line {line}: << merges mappings only")
    return parts


def _sentence(error: Exception, text: str) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    if mark is not None and text[mark.index : mark.index + 1] == "\t":
        problem = "a tab, where YAML wants spaces"
    if _NO_NEW_DOCUMENT in problem and mark is not None:
        ignored = "" if text.lstrip().startswith("{") else ", because kubectl ignores it"
        return (
            f"line {mark.line + 1}: text follows the end of the object: put a line --- before it if it is another "
            f"object, or remove it{ignored}"
        )
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
    return f"{where}not YAML: {problem}"
