"""Each scenario file holds, and together they cover the rows of the scheduling engine."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.running import failure, run
from tests.conformance.scenario import BUILT_IN, CATALOGS, ROW, SCENARIOS, read, scenario_files, title_of
from tests.tenon.scheduling.builders import ordinary_entries

MIN_SCENARIOS = 300
"""Scenarios that there are at least."""
SPANS = ((1, 19), (20, 31), (40, 45), (50, 67), (70, 83), (90, 108))
"""First and last numbers of the SCH rows, section by section."""
NOT_IN_A_PLAN = {
    "SCH-016": "events that warn of preferences are the worker's",
    "SCH-017": "how long a batch waits is the worker's; all pods of an input are one batch",
    "SCH-080": "the catalogue's format has one capacity for all offerings of a type",
    "SCH-097": "dynamic resources are refused (SCH-096); they are not allocated yet",
    "SCH-098": "dynamic resources are refused (SCH-096); they are not allocated yet",
    "SCH-099": "it says what dynamic resources leave out",
    "SCH-103": "it weighs replacements in consolidation, and buys nothing",
    "SCH-104": "repair of nodes is a disruption: conformance/disruption shows it",
    "SCH-105": "it changes requests in disruption only, by objects that a simulation does not read",
    "SCH-107": "it is metrics of the worker",
}
"""Rows that no scenario can show, each with the reason."""


@pytest.mark.parametrize("path", scenario_files(), ids=title_of)
def test_scenario(path: Path, tmp_path: Path) -> None:
    scenario = read(path)
    wrong = failure(scenario, run(scenario, tmp_path))
    assert not wrong, wrong


def test_files_are_named_by_the_row_that_they_show() -> None:
    for path in SCENARIOS.rglob("*"):
        if path.is_file():
            rows = read(path).description.rows
            assert path.parent.parent == SCENARIOS, f"{path} is in no theme"
            assert re.fullmatch(rf"{rows[0]}-[a-z0-9]+(-[a-z0-9]+)*\.yaml", path.name), f"{path} shows {rows}"
            assert all(ROW.fullmatch(row) for row in rows), f"{path} names something that is no row: {rows}"


def test_every_row_that_a_plan_can_show_is_shown() -> None:
    shown = {row for path in scenario_files() for row in read(path).description.rows}
    rows = set(_rows())
    assert {row for row in shown if row.startswith("SCH-")} - rows == set(), "there are no such rows"
    assert rows - shown == NOT_IN_A_PLAN.keys()
    assert len(scenario_files()) >= MIN_SCENARIOS


def test_enough_of_them_pin_the_outcome_and_its_explanation() -> None:
    assert sum(read(path).explained for path in scenario_files()) >= MIN_SCENARIOS


def test_each_catalogue_is_used() -> None:
    used = {read(path).description.catalog for path in scenario_files()} - {BUILT_IN}
    assert used == {path.stem for path in CATALOGS.iterdir()}


def test_the_ordinary_catalogue_is_that_of_the_tests_of_scheduling() -> None:
    assert json.loads((CATALOGS / "ordinary.json").read_text()) == {"instanceTypes": ordinary_entries()}


def _rows() -> Iterator[str]:
    for first, last in SPANS:
        yield from (f"SCH-{number:03}" for number in range(first, last + 1))
