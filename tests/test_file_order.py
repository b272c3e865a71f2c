"""In which order a run takes test files."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import file_order
from tests.audit import ProcessRecord, Ran
from tests.file_order import TABLE, in_order, measured
from tests.sandbox_fixture import TESTS

ON = "e2e/test_a.py"
ALSO_ON = "faults/test_b.py"
OFF = "scheduling/test_a.py"
ALSO_OFF = "kube/test_b.py"


def item(file: str, name: str, *, alone: bool = False) -> Any:
    def marker(expectation: str) -> str | None:
        return expectation if alone and expectation == "alone" else None

    return SimpleNamespace(path=TESTS / file, name=name, get_closest_marker=marker)


def names(*items: Any, seed: int | None = None) -> list[str]:
    return [test.name for test in in_order([*items], seed)]


def test_files_that_need_a_sandbox_come_last_and_stay_whole() -> None:
    items = [item(OFF, "1"), item(ON, "2"), item(ALSO_OFF, "3"), item(ON, "4"), item(ALSO_OFF, "5")]
    assert names(*items) == ["1", "3", "5", "2", "4"]


def test_of_these_files_with_a_test_that_must_be_alone_come_first() -> None:
    """Idle sandboxes of other processes would take processor time from it."""
    alone = item(ALSO_ON, "3", alone=True)
    assert names(item(ON, "1"), item(ALSO_ON, "2"), alone, item(OFF, "4")) == ["4", "2", "3", "1"]


def test_files_that_share_a_worker_follow_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder with the slowest file comes first."""
    table = tmp_path / "slow_files.json"
    table.write_text(json.dumps({ALSO_ON: 50, "e2e/test_c.py": 40, "faults/test_d.py": 30}))
    monkeypatch.setattr(file_order, "TABLE", table)
    items = [item(ON, "1"), item("faults/test_d.py", "2"), item(ALSO_ON, "3"), item("e2e/test_c.py", "4")]
    assert names(*items) == ["3", "2", "4", "1"]


def test_slow_files_come_first_as_a_run_has_recorded_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = ProcessRecord(tmp_path, "none-gw0")
    record.ran(Ran(f"tests/{ALSO_OFF}::test_1", 100.0, 130.0))
    record.ran(Ran("tests/kube/test_c.py::test_2", 130.0, 150.0))
    record.ran(Ran("tests/kube/test_c.py::test_3", 150.0, 170.0))
    record.ran(Ran(f"tests/{OFF}::test_4", 170.0, 171.0))
    table = tmp_path / "slow_files.json"
    table.write_text(json.dumps(measured(tmp_path, {"faults/drills/test_d.py": 35, OFF: 60})))
    output = json.loads(table.read_text())
    assert list(output.items()) == [("kube/test_c.py", 40), ("faults/drills/test_d.py", 35), (ALSO_OFF, 30)]
    monkeypatch.setattr(file_order, "TABLE", table)
    assert names(item(OFF, "1"), item(ALSO_OFF, "2"), item("kube/test_c.py", "3")) == ["3", "2", "1"]


def test_a_random_order_is_that_of_its_seed_and_keeps_files_whole() -> None:
    items = [item(f"kube/test_{number // 2}.py", str(number)) for number in range(40)]
    first = names(*items, seed=1)
    assert first == names(*items, seed=1)
    assert first != names(*items, seed=2)
    assert first != names(*items)
    assert [int(name) // 2 for name in first[::2]] == [int(name) // 2 for name in first[1::2]]


def test_a_random_order_does_not_end_with_the_slowest_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "slow_files.json"
    table.write_text(json.dumps({ON: 120, "e2e/test_b.py": 110, "e2e/test_c.py": 90}))
    monkeypatch.setattr(file_order, "TABLE", table)
    items = [item(f"e2e/test_{letter}.py", letter) for letter in "dcba"]
    orders = {tuple(names(*items, seed=seed)) for seed in range(20)}
    assert {frozenset(order[:2]) for order in orders} == {frozenset("ab")}
    assert len(orders) > 2


def test_the_table_names_files_that_exist() -> None:
    assert [file for file in json.loads(TABLE.read_text()) if not (TESTS / file).is_file()] == []
