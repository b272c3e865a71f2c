"""In which order a run takes the files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.sandbox_fixture import pytest_collection_modifyitems


def test_files_that_need_a_sandbox_come_last_and_stay_whole() -> None:
    def item(file: str, name: str, *fixtures: str) -> Any:
        return SimpleNamespace(path=Path(file), name=name, fixturenames=fixtures)

    items = [item("a", "1"), item("a", "2", "sandbox"), item("b", "3"), item("c", "4", "sandbox"), item("d", "5")]
    pytest_collection_modifyitems(cast("list[pytest.Item]", items))
    assert [one.name for one in items] == ["3", "5", "1", "2", "4"]
