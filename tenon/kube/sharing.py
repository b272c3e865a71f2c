"""Keeps one copy of values that many records have in common: strings, label sets, requests, terms."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

LIMIT = 50_000
"""The maximum number of entries. When the table is full it is cleared, and later records share new copies."""

_shared: dict[Hashable, Any] = {}


def share(values: dict[str, T]) -> dict[str, T]:
    """Return the shared dictionary with this content. Do not change it."""
    shared: dict[str, T] = _known(("dict", frozenset(values.items())), values)
    return shared


def share_texts(values: Mapping[str, str] | None) -> dict[str, str]:
    """Return the shared dictionary of these strings, such as labels. Do not change it."""
    return share({sys.intern(key): sys.intern(value) for key, value in (values or {}).items()})


def share_texts_in_order(values: list[str]) -> list[str]:
    """Return the shared list of these strings, such as the instance types of a NodeClaim. Do not change it."""
    shared: list[str] = _known(("list", *values), values)
    return shared


def share_value(value: T) -> T:
    """Return the shared value that is equal to this one. The value must be hashable."""
    shared: T = _known(("value", value), value)
    return shared


def _known(key: Hashable, value: Any) -> Any:
    if len(_shared) >= LIMIT:
        _shared.clear()
    return _shared.setdefault(key, value)
