"""Paths to fields: as people read them (``spec.requirements[0].key``, ``spec.limits[cpu]``) and as keys in a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

Path = tuple[str | int, ...]


def path_of(text: str, body: Any) -> Path:
    """The keys of a path's text, as far as it leads in this object, and one name more where it names what is absent.

    The object is asked because a key may itself hold dots, slashes and brackets.
    """
    found: list[str | int] = []
    value = body
    rest = text
    while rest:
        for key, remaining in _steps(rest, value):
            found.append(key)
            value, rest = value[key], remaining
            break
        else:
            break
    name = rest.lstrip(".").removeprefix("[").split(".", 1)[0].split("[", 1)[0].removesuffix("]")
    return (*found, name) if name and isinstance(value, dict) else tuple(found)


def _steps(rest: str, value: Any) -> Iterator[tuple[str | int, str]]:
    """The entries of a value that a path's text may begin with, the longest first, with what remains of the text."""
    if isinstance(value, dict):
        for key in sorted(map(str, value), key=len, reverse=True):
            for form in (f"[{key}]", f".{key}", key):
                if key and rest.startswith(form) and (len(form) == len(rest) or rest[len(form)] in ".["):
                    yield key, rest[len(form) :]
    elif isinstance(value, list) and rest.startswith("["):
        number, _, remaining = rest[1:].partition("]")
        if number.isascii() and number.isdigit() and len(number) < 9 and int(number) < len(value):
            yield int(number), remaining


def text_of(path: Sequence[str | int]) -> str:
    """The path as people read it."""
    text = ""
    for part in path:
        if isinstance(part, int) or "." in part or "/" in part:
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def value_at(body: Any, path: Sequence[str | int]) -> Any:
    """The value at a path.

    Raises:
        LookupError: there is none.
    """
    for part in path:
        if not (isinstance(body, dict) or (isinstance(body, list) and isinstance(part, int))):
            raise LookupError(part)
        held: Any = body
        body = held[part]
    return body


def has(body: Any, path: Sequence[str | int]) -> bool:
    """Whether there is a value at a path."""
    try:
        value_at(body, path)
    except LookupError:
        return False
    return True


def leaves(body: Any) -> Iterator[tuple[Path, Any]]:
    """Every value that holds no other, and every empty list and mapping, with its path, in order."""
    waiting: list[tuple[Path, Any]] = [((), body)]
    while waiting:
        path, value = waiting.pop()
        inner: list[tuple[Path, Any]] = []
        if isinstance(value, dict):
            inner = [((*path, key), item) for key, item in value.items()]
        elif isinstance(value, list):
            inner = [((*path, index), item) for index, item in enumerate(value)]
        if inner:
            waiting += reversed(inner)
        else:
            yield path, value
