"""Suggests corrected lines: tries a replacement for each refused field and keeps it if the object improves."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tenon.apis.base import FaultKind
from tenon.apis.duration import NEVER_TEXT
from tenon.apis.validation import FieldError
from tenon.manifests.documents import Item
from tenon.manifests.paths import Path, has, path_of, value_at
from tenon.manifests.schemas import Schema, choices_at
from tenon.manifests.yaml_writer import as_yaml
from tenon.sentences import nearest

RENAMED = {"WhenUnderutilized": "WhenEmptyOrUnderutilized", "Balance": "Balanced"}
"""Values renamed in v1."""
_SIGNS = {"=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt", ">=": "Gte", "<=": "Lte"}
"""Operators by the symbols that people write for them."""
_PART = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]+)\s*")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_SECONDS |= {"sec": 1, "secs": 1, "second": 1, "seconds": 1, "min": 60, "mins": 60, "minute": 60, "minutes": 60}
_SECONDS |= {"hr": 3600, "hrs": 3600, "hour": 3600, "hours": 3600, "day": 86400, "days": 86400}
_MAX_LENGTH = 40
_SHARE = re.compile(r"[0-9]+\s+%")
_SIZE = re.compile(r"([1-9][0-9]*)\s*(?:([GT])(i?)b?)?", re.IGNORECASE)
_SIZED = "volumeSize"
_COUNTS_SECONDS = ("ttlSecondsAfterEmpty", "ttlSecondsUntilExpired", "evictionMaxPodGracePeriod")
"""Fields that hold a number of seconds."""


def candidates(name: str, value: Any, written: str, choices: Sequence[str], kind: FaultKind) -> Iterator[Any]:
    """Yield possible replacements for a value, most likely first.

    Args:
        name: the field's name.
        value: the refused value.
        written: the value's source text, if it is unquoted; otherwise empty.
        choices: the strings that the field accepts; empty if it accepts any.
        kind: what is wrong with the value. Some guesses fit only certain faults.
    """
    if isinstance(value, (bool, int, float)):
        yield from _for_single(name, value, written)
        if kind is FaultKind.NO_LIST:
            yield [written or _own(value)]
        return
    if not isinstance(value, str) or len(value) > 400:
        if isinstance(value, dict) and value and kind is FaultKind.NO_LIST:
            yield [value]
        return
    text = value.strip()
    if not text:
        return
    for near in (RENAMED.get(value), _SIGNS.get(text), nearest(value, choices)):
        if near in choices:
            yield near
    if text != value:
        yield text
    if name == _SIZED:
        yield from _sizes(text)
    if re.fullmatch(r"-?[0-9]{1,18}", text):
        yield int(text)
    if text.casefold() in ("true", "false"):
        yield text.casefold() == "true"
    if _SHARE.fullmatch(text):
        yield "".join(text.split())
    yield from _durations(text)
    if name in _COUNTS_SECONDS and (seconds := _seconds(text)) is not None:
        yield seconds
    if kind is FaultKind.VALUE and text.lower() != text:
        yield text.lower()
    if kind is FaultKind.NO_LIST:
        yield [value]


def _for_single(name: str, value: bool | float, written: str) -> Iterator[Any]:
    """Replacements for a number or a boolean; most often its source text as a string."""
    own = _own(value)
    yield from dict.fromkeys((written or own, own))
    if not isinstance(value, bool):
        if name == _SIZED:
            yield from _sizes(written or own)
        if value >= 0:
            yield f"{value}s"
        if isinstance(value, float) and value.is_integer():
            yield int(value)


def _own(value: bool | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _sizes(text: str) -> Iterator[str]:
    """A volume size. A bare number means GiB, as in the AWS API."""
    if (size := _SIZE.fullmatch(text)) is not None:
        number, unit, binary = size[1], size[2], size[3]
        yield f"{number}{unit.upper()}{binary.lower()}" if unit else f"{number}Gi"


def _durations(text: str) -> Iterator[str]:
    if text.casefold() == NEVER_TEXT.casefold():
        yield NEVER_TEXT
    if re.fullmatch(r"[0-9]{1,9}", text):
        yield f"{text}s"
    seconds = _seconds(text)
    if seconds is None:
        return
    hours, minutes = divmod(seconds // 60, 60)
    parts = [f"{number}{unit}" for number, unit in ((hours, "h"), (minutes, "m"), (seconds % 60, "s")) if number]
    yield "".join(parts) or "0s"


def _seconds(text: str) -> int | None:
    """Parse a duration with units into seconds. Return None if it is not a duration or not whole seconds."""
    if not text or len(text) > _MAX_LENGTH or _PART.sub("", text):
        return None
    total = 0.0
    for number, unit in _PART.findall(text):
        size = _SECONDS.get(unit if unit in _SECONDS else unit.casefold())
        if size is None:
            return None
        total += float(number) * size
    return int(total) if total == int(total) and total <= 10**12 else None


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
        for fix in _guesses(item, path, schema, unknown, problem.kind):
            if tried >= MAX_TRIES:
                return fixes_by_error, solved
            tried += 1
            body = applied(item.body, fix)
            remaining_problems = set(check(body))
            new_path = (*fix.path[:-1], fix.name or fix.path[-1])
            worse = any(path_of(other.path, body)[: len(new_path)] == new_path for other in remaining_problems - every)
            if problem not in remaining_problems and not worse:
                fixes_by_error[problem] = fix
                solved |= every - remaining_problems - {problem}
                break
    return fixes_by_error, solved


def applied(body: dict[str, Any], fix: Fix) -> dict[str, Any]:
    """Return a copy of the object with the correction applied. The order of fields does not change."""
    result = copy.deepcopy(body)
    holder: Any = value_at(result, fix.path[:-1])
    last: Any = fix.path[-1]
    if fix.name is None:
        holder[last] = fix.value
    else:
        entries = [(fix.name, fix.value) if key == last else (key, inner) for key, inner in holder.items()]
        holder.clear()
        holder.update(entries)
    return result


def _guesses(item: Item, path: Path, schema: Schema, unknown: Known, kind: FaultKind) -> Iterator[Fix]:
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
    for guess in candidates(name, value, _written(item, path), choices_at(schema, path), kind):
        yield Fix(path, guess)


def _written(item: Item, path: Path) -> str:
    place, length = item.place_at(path)
    return item.document.lines.text[place.start : place.end] if place and length == len(path) and place.plain else ""


def fixed_line(item: Item, fixes: Sequence[Fix]) -> str | None:
    """Return the line with these corrections applied, or None if they do not all fall on one line of the file."""
    lines = item.document.lines
    spans: list[tuple[int, int, str]] = []
    for fix in fixes:
        place, length = item.place_at(fix.path)
        if place is None or length < len(fix.path):
            return None
        if fix.name is not None and place.key is not None:
            spans.append((*place.key, fix.name))
        if place.entries is None and fix.value != value_at(item.body, fix.path):
            spans.append((place.start, place.end, _flow(fix.value)))
        elif fix.name is None:
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
