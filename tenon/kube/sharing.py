"""One copy of what many records hold alike: texts, label sets, requests, terms."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

LIMIT = 50_000
"""Entries that are remembered; beyond it all are forgotten, which costs only memory until they come again."""

_shared: dict[Hashable, Any] = {}


def share(values: dict[str, T]) -> dict[str, T]:
    """The one dictionary of this content; nobody may change it."""
    shared: dict[str, T] = _known(("dict", frozenset(values.items())), values)
    return shared


def share_texts(values: Mapping[str, str] | None) -> dict[str, str]:
    """The one dictionary of these texts, such as labels; nobody may change it."""
    return share({sys.intern(key): sys.intern(value) for key, value in (values or {}).items()})


def share_texts_in_order(values: list[str]) -> list[str]:
    """The one list of these texts, such as the instance types of a NodeClaim; nobody may change it."""
    shared: list[str] = _known(("list", *values), values)
    return shared


def share_value(value: T) -> T:
    """The one value that is equal to this; it must be hashable."""
    shared: T = _known(("value", value), value)
    return shared


def _known(key: Hashable, value: Any) -> Any:
    if len(_shared) >= LIMIT:
        _shared.clear()
    return _shared.setdefault(key, value)
