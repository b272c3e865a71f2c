"""Changes to documents that were right, at any place in them: what careless and what hostile people write."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

Path = tuple[Any, ...]

ANYTHING: list[Any] = [
    *(None, True, False, 0, -1, 1.5, 2**31, 2**63, 2**70, 10**300, 1e308, -0.0, 5e-324),
    *("", " ", "a", "-1", "1e999", "\u0000", "ü", "\ud7ff", "a b", "a/b/c", "{}", "true", "a" * 5000, "1" * 400),
    *("1Gi", "9223372036854775807", "9999999999999999999999Ei", "0.0000000001n", "-5m", "1e-400", "NaN", "Infinity"),
    *("2026-13-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59+14:00", "In", "Exists", "NoSchedule"),
    *([], [[]], [None], [{}], ["a"], ["a", "a"], [1, "a"], ["5"], ["-9223372036854775809"], [["a"], ["b"]]),
    *({}, {"a": "b"}, {"": ""}, {"a": None}, {"a": {"b": []}}, {"cpu": "-1"}, {"cpu": "1e999"}, {"a/b/c": "d"}),
]
"""Values that fit somewhere, and hardly anywhere."""
KEYS = ("", "a", "ü", "a/b/c", "kubernetes.io/hostname", "metadata", "spec", "x" * 400, "key\nline", "__class__")


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every field of a document."""
    if path:
        yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield from places(inner, (*path, key))


def _set(holder: Any, key: Any, value: Any) -> None:
    holder[key] = value


def _drop(holder: Any, key: Any, _: Any) -> None:
    del holder[key]


def _wrap(holder: Any, key: Any, _: Any) -> None:
    holder[key] = [holder[key]]


def _unwrap(holder: Any, key: Any, _: Any) -> None:
    inner = holder[key]
    if isinstance(inner, list) and inner:
        holder[key] = inner[0]
    elif isinstance(inner, dict) and inner:
        holder[key] = next(iter(inner.values()))


def _twice(holder: Any, key: Any, _: Any) -> None:
    if isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))
    elif isinstance(holder[key], list):
        holder[key] = holder[key] * 2


def _rename(holder: Any, key: Any, value: Any) -> None:
    if isinstance(holder, dict):
        holder[KEYS[len(str(value)) % len(KEYS)]] = holder.pop(key)


def _as_text(holder: Any, key: Any, _: Any) -> None:
    holder[key] = str(holder[key])


def _bury(holder: Any, key: Any, _: Any) -> None:
    for _turn in range(60):
        holder[key] = {"a": [holder[key]]}


CHANGES: list[Callable[[Any, Any, Any], None]] = [
    _set,
    _set,
    _set,
    _drop,
    _wrap,
    _unwrap,
    _twice,
    _rename,
    _as_text,
    _bury,
]
"""What is done at a place; a value is set most often."""


def changed(documents: list[dict[str, Any]], edits: list[tuple[int, Path, int, Any]]) -> list[dict[str, Any]]:
    """The documents with each edit (number of the document, place, number of the change, value) done in turn."""
    result = copy.deepcopy(documents)
    for number, path, change, value in edits:
        holder: Any = result[number]
        try:
            for key in path[:-1]:
                holder = holder[key]
            _ = holder[path[-1]]
            CHANGES[change](holder, path[-1], copy.deepcopy(value))
        except (KeyError, IndexError, TypeError, AttributeError):
            continue  # an earlier edit took the place away
    return result
