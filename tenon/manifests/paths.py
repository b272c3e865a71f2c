"""Field paths, as text (``spec.requirements[0].key``, ``spec.limits[cpu]``) and as tuples of keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

Path = tuple[str | int, ...]


def path_of(text: str, body: Any) -> Path:
    """Parse a path as far as it exists in this object, plus one more name if the next field is missing.

    Parsing needs the object because a key may itself contain dots, slashes and brackets.
    """
    segments: list[str | int] = []
    value = body
    rest = text
    while rest:
        for key, remaining in _steps(rest, value):
            segments.append(key)
            value, rest = value[key], remaining
            break
        else:
            break
    name = rest.lstrip(".").removeprefix("[").split(".", 1)[0].split("[", 1)[0].removesuffix("]")
    return (*segments, name) if name and isinstance(value, dict) else tuple(segments)


def _steps(rest: str, value: Any) -> Iterator[tuple[str | int, str]]:
    """Entries of a value that match the start of a path, longest first, each with the rest of the path."""
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
    """Format the path as text."""
    text = ""
    for part in path:
        if isinstance(part, int) or "." in part or "/" in part:
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def value_at(body: Any, path: Sequence[str | int]) -> Any:
    """Return the value at a path.

    Raises:
        LookupError: the path does not exist.
    """
    for part in path:
        if not (isinstance(body, dict) or (isinstance(body, list) and isinstance(part, int))):
            raise LookupError(part)
        current: Any = body
        body = current[part]
    return body


def has(body: Any, path: Sequence[str | int]) -> bool:
    """True if the path exists."""
    try:
        value_at(body, path)
    except LookupError:
        return False
    return True


def leaves(body: Any) -> Iterator[tuple[Path, Any]]:
    """Yield every scalar and every empty list or mapping with its path, in document order."""
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
