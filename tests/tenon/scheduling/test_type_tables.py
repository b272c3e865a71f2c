"""When the index of a list of instance types is used again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenon.kube.requirements import Requirements
from tenon.resources import CPU, MEMORY
from tenon.scheduling.offerings import type_table
from tenon.scheduling.offerings.type_candidates import positions, type_set
from tenon.scheduling.offerings.type_table import TypeTables
from tests.tenon.scheduling.builders import CATALOG

NAMES = (CPU, MEMORY)


def test_a_later_problem_uses_the_table_of_a_list_with_the_same_types() -> None:
    first = TypeTables()
    table = first.of(list(CATALOG), NAMES)
    later = TypeTables(first)
    assert later.of(list(CATALOG), NAMES) is table
    assert later.of(list(CATALOG), (CPU,)) is not table
    assert later.of(list(CATALOG[1:]), NAMES) is not table


def test_a_question_about_offerings_asks_any_table_of_the_list() -> None:
    tables = TypeTables()
    table = tables.of(CATALOG, NAMES)
    assert tables.any_of(CATALOG) is table
    assert tables.any_of(list(CATALOG[1:])) is not table
    assert [kind.name for kind in TypeTables().any_of(CATALOG).types] == [kind.name for kind in table.types]


def test_a_type_that_changed_is_indexed_again() -> None:
    first = TypeTables()
    table = first.of(CATALOG, NAMES)
    changed = [replace(CATALOG[0], offerings=()), *CATALOG[1:]]
    assert TypeTables(first).of(changed, NAMES) is not table


def test_a_table_that_one_problem_did_not_need_is_dropped() -> None:
    first = TypeTables()
    table = first.of(CATALOG, NAMES)
    idle = TypeTables(first)
    assert TypeTables(idle).of(CATALOG, NAMES) is not table


def test_a_table_that_remembers_too_much_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    first = TypeTables()
    table = first.of(CATALOG, NAMES)
    table.market(Requirements())
    assert TypeTables(first).of(CATALOG, NAMES) is table
    monkeypatch.setattr(type_table, "MAX_ANSWERS", table.answers - 1)
    assert TypeTables(first).of(CATALOG, NAMES) is not table


@pytest.mark.parametrize("numbers", [[0], [7], [8], [0, 3, 64, 801]])
def test_a_set_of_types_has_the_types_of_which_it_was_made(numbers: list[int]) -> None:
    types = type_set(numbers)
    assert types == sum(1 << number for number in numbers)
    assert positions(types, 900).tolist() == numbers
