"""Keeps what was computed for a node until something changes that it was computed from.

A plan and a look for moves describe every node, and few nodes change in between. Each value is kept with the objects
that it was computed from, and counts only for the same objects. Records and the pods of a node are immutable, so the
same objects mean the same value: a kept value is never out of date, even if it is not dropped. Dropping saves memory.
"""

from __future__ import annotations

from collections.abc import Collection
from operator import is_
from typing import Generic, TypeVar, cast

T = TypeVar("T")
V = TypeVar("V")

Sources = tuple[object, ...]
"""The objects that a value was computed from. A number counts as the same only until it is computed again."""


class NodeMemo(Generic[V]):
    """Values by the name of their Node. Snapshots share it, so several threads may use it at once."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[Sources, V]] = {}
        self._common: tuple[object, ...] = ()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, node_name: str, sources: Sources) -> V | None:
        """Return the value that was computed from these very objects; None if there is none."""
        memo = self._entries.get(node_name)
        if memo is None or not all(map(is_, memo[0], sources)):
            return None
        return memo[1]

    def put(self, node_name: str, sources: Sources, value: V) -> None:
        """Keep a value. All sources of a memo have the same length."""
        self._entries[node_name] = sources, value

    def common(self, source: tuple[T, ...]) -> tuple[T, ...]:
        """Return the source that all nodes have in common, as the same object as long as it is equal."""
        common_memo = self._common  # read once, because another thread may replace it
        if common_memo == source:
            return cast("tuple[T, ...]", common_memo)
        self._common = source
        return source

    def forget(self, node_name: str) -> None:
        """Drop the value of a node, if there is one."""
        self._entries.pop(node_name, None)

    def keep_only(self, node_names: Collection[str]) -> None:
        """Drop the values of all other nodes."""
        for name in [name for name in list(self._entries) if name not in node_names]:
            self._entries.pop(name, None)
