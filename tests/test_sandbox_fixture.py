"""In which order a run takes the files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.sandbox_fixture import pytest_collection_modifyitems


def item(file: str, name: str, *fixtures: str, alone: bool = False) -> Any:
    def marker(wanted: str) -> str | None:
        return wanted if alone and wanted == "alone" else None

    return SimpleNamespace(path=Path(file), name=name, fixturenames=fixtures, get_closest_marker=marker)


def in_order(*items: Any) -> list[str]:
    sorted_ = [*items]
    pytest_collection_modifyitems(cast("list[pytest.Item]", sorted_))
    return [one.name for one in sorted_]


def test_files_that_need_a_sandbox_come_last_and_stay_whole() -> None:
    items = [item("a", "1"), item("a", "2", "sandbox"), item("b", "3"), item("c", "4", "sandbox"), item("d", "5")]
    assert in_order(*items) == ["3", "5", "1", "2", "4"]


def test_of_these_files_with_a_test_that_must_be_alone_come_first() -> None:
    """Idle sandboxes of other processes would take processor time from it."""
    alone = item("b", "3", "sandbox", alone=True)
    assert in_order(item("a", "1", "sandbox"), item("b", "2", "sandbox"), alone, item("c", "4")) == ["4", "2", "3", "1"]
