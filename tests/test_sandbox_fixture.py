"""Which files a run takes, and in which order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.sandbox_fixture import ON_SANDBOX, TESTS, needs_sandbox, pytest_collection_modifyitems

ON = "e2e/test_a.py"
ALSO_ON = "faults/test_b.py"
OFF = "scheduling/test_a.py"
ALSO_OFF = "kube/test_b.py"


def item(file: str, name: str, *, alone: bool = False) -> Any:
    def marker(wanted: str) -> str | None:
        return wanted if alone and wanted == "alone" else None

    return SimpleNamespace(path=TESTS / file, name=name, get_closest_marker=marker)


def in_order(*items: Any) -> list[str]:
    ordered = [*items]
    pytest_collection_modifyitems(cast("list[pytest.Item]", ordered))
    return [test.name for test in ordered]


def test_files_that_need_a_sandbox_come_last_and_stay_whole() -> None:
    items = [item(OFF, "1"), item(ON, "2"), item(ALSO_OFF, "3"), item(ON, "4"), item(ALSO_OFF, "5")]
    assert in_order(*items) == ["1", "3", "5", "2", "4"]


def test_of_these_files_with_a_test_that_must_be_alone_come_first() -> None:
    """Idle sandboxes of other processes would take processor time from it."""
    alone = item(ALSO_ON, "3", alone=True)
    assert in_order(item(ON, "1"), item(ALSO_ON, "2"), alone, item(OFF, "4")) == ["4", "2", "3", "1"]


@pytest.mark.parametrize("name", ON_SANDBOX)
def test_each_named_file_or_folder_exists(name: str) -> None:
    assert (TESTS / name).exists()


def test_a_file_needs_a_sandbox_if_it_or_its_folder_is_named() -> None:
    assert needs_sandbox(TESTS / "e2e" / "test_termination.py")
    assert needs_sandbox(TESTS / "deploy" / "test_chart.py")
    assert not needs_sandbox(TESTS / "deploy" / "test_aws.py")
    assert not needs_sandbox(TESTS / "e2e_of_something_else" / "test_a.py")
