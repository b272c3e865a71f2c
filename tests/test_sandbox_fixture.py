"""Which files a run takes."""

from __future__ import annotations

import pytest

from tests.sandbox_fixture import ON_SANDBOX, TESTS, needs_sandbox


@pytest.mark.parametrize("name", ON_SANDBOX)
def test_each_named_file_or_folder_exists(name: str) -> None:
    assert (TESTS / name).exists()


def test_a_file_needs_a_sandbox_if_it_or_its_folder_is_named() -> None:
    assert needs_sandbox(TESTS / "e2e" / "test_termination.py")
    assert needs_sandbox(TESTS / "deploy" / "test_chart.py")
    assert not needs_sandbox(TESTS / "deploy" / "test_aws.py")
    assert not needs_sandbox(TESTS / "e2e_of_something_else" / "test_a.py")
