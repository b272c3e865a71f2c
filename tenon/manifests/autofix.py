"""Suggests corrected lines: tries a replacement for each refused field and keeps it if the object improves."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tenon.apis.validation import FieldError
from tenon.manifests.documents import Item
from tenon.manifests.fix_suggestions import candidates
from tenon.manifests.paths import Path, has, path_of, value_at
from tenon.manifests.schemas import Schema, choices_at
from tenon.manifests.yaml_writer import as_yaml
from tenon.sentences import nearest

MAX_TRIES = 300
"""Maximum number of replacements to try for one object."""

Check = Callable[[dict[str, Any]], Sequence[FieldError]]
Known = dict[Path, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Fix:
    """One correction: a new field name, a new value, or both."""

    path: Path
    value: Any
    name: str | None = None


def find_fixes(
    item: Item, problems: Sequence[FieldError], schema: Schema, unknown: Known, check: Check
) -> tuple[dict[FieldError, Fix], set[FieldError]]:
    """Find a correction for each problem that can be guessed.

    Returns:
        The correction of each problem, and the other problems that these corrections also solve.
    """
    fixes_by_error: dict[FieldError, Fix] = {}
    solved: set[FieldError] = set()
    every = set(problems)
    tried = 0
    for problem in problems:
        path = path_of(problem.path, item.body)
        for mend in _guesses(item, path, schema, unknown, problem.sentence):
            if tried >= MAX_TRIES:
                return fixes_by_error, solved
            tried += 1
            body = applied(item.body, mend)
            left = set(check(body))
            new_path = (*mend.path[:-1], mend.name or mend.path[-1])
            worse = any(path_of(other.path, body)[: len(new_path)] == new_path for other in left - every)
            if problem not in left and not worse:
                fixes_by_error[problem] = mend
                solved |= every - left - {problem}
                break
    return fixes_by_error, solved


def applied(body: dict[str, Any], mend: Fix) -> dict[str, Any]:
    """Return a copy of the object with the correction applied. The order of fields does not change."""
    result = copy.deepcopy(body)
    holder: Any = value_at(result, mend.path[:-1])
    last: Any = mend.path[-1]
    if mend.name is None:
        holder[last] = mend.value
    else:
        entries = [(mend.name, mend.value) if key == last else (key, inner) for key, inner in holder.items()]
        holder.clear()
        holder.update(entries)
    return result


def _guesses(item: Item, path: Path, schema: Schema, unknown: Known, sentence: str) -> Iterator[Fix]:
    if not path or not has(item.body, path):
        return
    value, name = value_at(item.body, path), str(path[-1])
    if path in unknown:
        near = nearest(name, unknown[path])
        holder = value_at(item.body, path[:-1])
        if near is not None and near not in holder:
            yield Fix(path, value, near)
        if name == "apiVersion" and "group" in unknown[path] and "group" not in holder and isinstance(value, str):
            yield Fix(path, value.partition("/")[0], "group")
        return
    if isinstance(value, dict) and name.strip() != name:
        yield Fix(path, value, name.strip())
    for guess in candidates(name, value, _written(item, path), choices_at(schema, path), sentence):
        yield Fix(path, guess)


def _written(item: Item, path: Path) -> str:
    place, length = item.place_at(path)
    return item.document.lines.text[place.start : place.end] if place and length == len(path) and place.plain else ""


def fixed_line(item: Item, fixes: Sequence[Fix]) -> str | None:
    """Return the line with these corrections applied, or None if they do not all fall on one line of the file."""
    lines = item.document.lines
    spans: list[tuple[int, int, str]] = []
    for mend in fixes:
        place, length = item.place_at(mend.path)
        if place is None or length < len(mend.path):
            return None
        if mend.name is not None and place.key is not None:
            spans.append((*place.key, mend.name))
        if place.entries is None and mend.value != value_at(item.body, mend.path):
            spans.append((place.start, place.end, _flow(mend.value)))
        elif mend.name is None:
            return None
    spans = sorted(set(spans))
    numbers = {lines.number(offset) for start, end, _ in spans for offset in (start, max(start, end - 1))}
    if len(numbers) != 1:
        return None
    first, last = lines.bounds(numbers.pop())
    parts, at = [], first
    for start, end, text in spans:
        parts += [lines.text[at:start], text]
        at = end
    return "".join([*parts, lines.text[at:last]]).strip()


def _flow(value: Any) -> str:
    text = as_yaml([value]).strip()
    return text[1:-1] if text.startswith("[") else text.removeprefix("- ")
