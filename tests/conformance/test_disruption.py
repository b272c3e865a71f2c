"""Each scenario of disruption holds, and is named after the row that it shows."""

from __future__ import annotations

import re

import pytest

from tests.conformance.disruption_scenario import FOLDER, failure, read
from tests.conformance.scenario import ROW

MIN_SCENARIOS = 180
"""Scenarios that there are at least."""
FILES = sorted(FOLDER.glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_scenario(path: object) -> None:
    wrong = failure(read(FOLDER / str(path)))
    assert not wrong, wrong


def test_files_are_named_by_the_row_that_they_show() -> None:
    assert len(FILES) >= MIN_SCENARIOS
    for path in FOLDER.iterdir():
        rows = read(path).rows
        assert re.fullmatch(rf"{rows[0]}-[a-z0-9]+(-[a-z0-9]+)*\.yaml", path.name), f"{path} shows {rows}"
        assert all(ROW.fullmatch(row) for row in rows), f"{path} names something that is no row: {rows}"
