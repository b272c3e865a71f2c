"""Tests that would begin too late are skipped with their reason."""

from __future__ import annotations

import time
from typing import Any, cast

import pytest

from tests import time_limit

ITEM = cast("Any", None)


def test_no_test_begins_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(time_limit.UNTIL, str(int(time.time()) - 1))
    with pytest.raises(pytest.skip.Exception, match=time_limit.REASON):
        time_limit.pytest_runtest_setup(ITEM)


@pytest.mark.parametrize("until", [None, "", "99999999999"])
def test_without_a_limit_and_before_it_tests_run(monkeypatch: pytest.MonkeyPatch, until: str | None) -> None:
    if until is None:
        monkeypatch.delenv(time_limit.UNTIL, raising=False)
    else:
        monkeypatch.setenv(time_limit.UNTIL, until)
    time_limit.pytest_runtest_setup(ITEM)
