"""Which rows a view shows, in which order, in which groups."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tenon.errors import TenonError
from tenon.fleet.rows import NodeRow
from tenon.fleet.summary import Totals, totals

_NUMBERS = re.compile(r"([0-9]{1,18})")


class SortKey(StrEnum):
    """What rows are sorted by. Figures come with the largest first."""

    NAME = "name"
    CPU = "cpu"
    MEMORY = "memory"
    PRICE = "price"
    AGE = "age"
    PODS = "pods"
    STAGE = "stage"


class GroupBy(StrEnum):
    """What rows are grouped by."""

    NONE = "none"
    POOL = "pool"
    ZONE = "zone"

    @property
    def following(self) -> GroupBy:
        """The next grouping, and after the last one none."""
        members = list(GroupBy)
        return members[(members.index(self) + 1) % len(members)]


class FilterError(TenonError):
    """A filter that cannot be read. The message is one sentence."""


_KEYS: dict[SortKey, Callable[[NodeRow], Any]] = {
    SortKey.CPU: lambda row: -row.cpu_share,
    SortKey.MEMORY: lambda row: -row.memory_share,
    SortKey.PRICE: lambda row: -(row.price if row.price is not None else -1.0),
    SortKey.AGE: lambda row: row.created.timestamp() if row.created is not None else float("inf"),
    SortKey.PODS: lambda row: -row.pods,
    SortKey.STAGE: lambda row: (row.stage == "live", row.stage.value),
}


def natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key in which numbers in a name count as numbers: ip-10-0-0-8 comes before ip-10-0-0-15."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in _NUMBERS.split(name)]


def ordered(rows: Iterable[NodeRow], key: SortKey, *, reverse: bool = False) -> list[NodeRow]:
    """Return the rows in order: figures from large to small, ages from old to new, nodes with equal keys by name."""
    by_name = sorted(rows, key=lambda row: (natural(row.name), row.claim), reverse=reverse and key is SortKey.NAME)
    if key is SortKey.NAME:
        return by_name
    return sorted(by_name, key=_KEYS[key], reverse=reverse)


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows of one NodePool or zone. Without a grouping there is one group, whose name is empty."""

    name: str
    rows: Sequence[NodeRow]
    totals: Totals


def grouped(rows: Sequence[NodeRow], group_by: GroupBy) -> list[RowGroup]:
    """Return the rows by group, in the order that they have. Groups are in the order of their names."""
    if group_by is GroupBy.NONE:
        return [RowGroup("", rows, totals(rows))]
    by_name: dict[str, list[NodeRow]] = {}
    for row in rows:
        name = row.pool if group_by is GroupBy.POOL else row.zone
        by_name.setdefault(name or f"no {group_by.value}", []).append(row)
    return [RowGroup(name, by_name[name], totals(by_name[name])) for name in sorted(by_name)]


_COMPARISON = re.compile(r"(?P<field>cpu|memory|price|pods)(?P<operator>[<>])(?P<figure>[0-9.]+)%?")
_FIGURES: dict[str, Callable[[NodeRow], float]] = {
    "cpu": lambda row: row.cpu_share * 100,
    "memory": lambda row: row.memory_share * 100,
    "price": lambda row: row.price or 0.0,
    "pods": lambda row: row.pods,
}
_FIELDS: dict[str, Callable[[NodeRow], str]] = {
    "pool": lambda row: row.pool,
    "zone": lambda row: row.zone,
    "type": lambda row: row.instance_type,
    "capacity": lambda row: row.capacity_type,
    "stage": lambda row: row.stage.value,
    "disruption": lambda row: row.disruption.value,
    "ready": lambda row: "yes" if row.ready else "no",
}
Matches = Callable[[NodeRow], bool]


def parse_filter(text: str) -> Matches:
    """Return what tells whether a row matches a filter: words that must all match.

    A word is a part of any text of the row (`spot`, `m5.`), `FIELD=VALUE` (`zone=us-west-2a`), or a comparison of cpu,
    memory (percent), price or pods (`cpu<30`).

    Raises:
        FilterError: a word compares an unknown field.
    """
    tests = [_word(word) for word in text.lower().split()]
    return lambda row: all(test(row) for test in tests)


def _word(word: str) -> Matches:
    if comparison := _COMPARISON.fullmatch(word):
        try:
            figure = float(comparison["figure"])
        except ValueError:
            raise FilterError(f"{word}: {comparison['figure']} is not a number.") from None
        value = _FIGURES[comparison["field"]]
        if comparison["operator"] == "<":
            return lambda row: value(row) < figure
        return lambda row: value(row) > figure
    field, equals, wish = word.partition("=")
    if equals:
        if field not in _FIELDS:
            raise FilterError(f"{word}: filter by {', '.join(_FIELDS)}, or by cpu, memory, price, pods with < or >.")
        text_of = _FIELDS[field]
        return lambda row: text_of(row).lower() == wish
    if "<" in word or ">" in word:
        raise FilterError(f"{word}: compare cpu, memory, price or pods with a number.")
    return lambda row: any(word in text.lower() for text in _texts(row))


def _texts(row: NodeRow) -> tuple[str, ...]:
    names = (row.node, row.claim, row.instance)
    blocked = "blocked" if row.is_blocked else ""
    return (
        *names,
        blocked,
        row.pool,
        row.instance_type,
        row.zone,
        row.capacity_type,
        row.stage.value,
        row.disruption.value,
    )
