"""Each scenario of disruption holds, is named after the row that it shows, and together they cover the rows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.conformance.disruption_scenario import FOLDER, KINDS, failure, read
from tests.conformance.scenario import ROW

MIN_SCENARIOS = 290
"""Scenarios that there are at least."""
FILES = sorted(FOLDER.glob("*.yaml"))
REFERENCE = Path(__file__).parents[2] / "docs" / "reference.md"
NOT_IN_A_DECISION = {
    "DIS-06": "expiry is a timer of the node's workflow",
    "DIS-38": "turns are taken between passes, in tests/tenon/disruption/test_turns.py",
    "DIS-39": "how often a pass runs is the worker's, in tests/activities/disruption/test_pass_pauses.py",
    "DIS-56": "what budgets do not apply to never asks for them",
    "DIS-60": "taint and condition are the command's workflow's",
    "DIS-61": "the command's workflow creates the replacements",
    "DIS-63": "the command's workflow waits for the replacements",
    "DIS-64": "the command's workflow asks the nodes to leave",
    "DIS-65": "the command's workflow undoes what it did",
    "DIS-66": "the worker removes what a command left behind",
    "DIS-80": "expiry is a timer of the node's workflow",
    "DIS-81": "the drain is the node's workflow's",
    "DIS-82": "the drain is the node's workflow's",
    "DIS-83": "the drain is the node's workflow's",
    "DIS-84": "what do-not-disrupt does not stop is no decision of disruption",
    "DIS-85": "it is metrics of the worker",
}
"""Rows of disruption that no scenario can show, each with the reason."""
ONE_NODE = "cluster: {nodes: {a: {}}}\nexpect: []\nallowed: {default: {Empty: 1}}"


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_scenario(path: Path) -> None:
    wrong = failure(read(path))
    assert not wrong, wrong


def test_files_are_named_by_the_row_that_they_show() -> None:
    assert len(FILES) >= MIN_SCENARIOS
    for path in FOLDER.iterdir():
        rows = read(path).rows
        assert re.fullmatch(rf"{rows[0]}-[a-z0-9]+(-[a-z0-9]+)*\.yaml", path.name), f"{path} shows {rows}"
        assert all(ROW.fullmatch(row) for row in rows), f"{path} names something that is no row: {rows}"


def test_every_row_that_a_decision_can_show_is_shown() -> None:
    shown = {row for path in FILES for row in read(path).rows}
    rows = set(re.findall(r"^\| (DIS-\d+) \|", REFERENCE.read_text(), re.MULTILINE))
    assert rows - shown == NOT_IN_A_DECISION.keys()


def test_each_kind_is_used() -> None:
    assert {type(read(path)) for path in FILES} == set(KINDS.values())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"{ONE_NODE}\nalowed: {{}}", "Extra inputs are not permitted"),
        (ONE_NODE.replace("a: {}", "a: {kind: m5.large}"), "Extra inputs are not permitted"),
        (ONE_NODE.replace("a: {}", "a: {pods: [{cpu: '64'}]}"), "more pods than they have room for"),
        (ONE_NODE.replace("allowed", "# allowed"), "nothing says why"),
        (ONE_NODE.replace("expect: []", "expect: [{removes: [a]}]"), "needs a fragment of its explanation"),
        (ONE_NODE.replace("expect: []", "expect: [{removes: [b], reason: Empty}]"), "does not have"),
        (ONE_NODE + "\nthen: [{ends: ''}]", "exactly one command"),
        (ONE_NODE + "\nlegacy_repair: {nodes: {}}", "exactly one of"),
    ],
)
def test_a_scenario_that_would_show_nothing_is_refused(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "DIS-01-a.yaml"
    head = "scenario: a\nrows: [DIS-01]\nderivation: It is long enough to say why.\n"
    path.write_text(head + ONE_NODE)
    assert failure(read(path)).count("expected commands") == 1, "the node is empty and leaves"
    path.write_text(head + text)
    with pytest.raises((ValidationError, ValueError), match=why):
        read(path)
