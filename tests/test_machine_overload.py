"""Few tests at a time begin on a machine that is overloaded."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.machine_overload import turn
from tests.sandbox_count import FEWEST
from tests.time_limit import UNTIL
from tests.workflows.waiting import until


async def test_a_test_begins_on_an_overloaded_machine_when_one_of_few_others_ends(tmp_path: Path) -> None:
    measured, begun = threading.Event(), threading.Event()

    def is_overloaded() -> bool:
        measured.set()
        return True

    def begin() -> None:
        with turn(tmp_path, is_overloaded, poll_seconds=0.01):
            begun.set()

    async def has_measured() -> bool:
        return measured.is_set()

    async def has_begun() -> bool:
        return begun.is_set()

    with ThreadPoolExecutor() as threads, ExitStack() as turns:
        for _ in range(FEWEST - 1):
            turns.enter_context(turn(tmp_path, is_overloaded))
        with turn(tmp_path, is_overloaded):
            assert not measured.is_set(), "the first need no measurement"
            threads.submit(begin)
            await until(has_measured)
            assert not begun.is_set()
        await until(has_begun)


def test_all_tests_begin_at_once_on_a_machine_that_is_not_overloaded(tmp_path: Path) -> None:
    with ExitStack() as turns:
        for _ in range(FEWEST + 2):
            turns.enter_context(turn(tmp_path, lambda: False))


def test_a_test_that_waits_begins_when_the_machine_is_not_overloaded_any_more(tmp_path: Path) -> None:
    answers = iter([True, True, False])
    with ExitStack() as turns:
        for _ in range(FEWEST):
            turns.enter_context(turn(tmp_path, lambda: True))
        with turn(tmp_path, lambda: next(answers), poll_seconds=0.0):
            assert next(answers, None) is None, "the test began while the machine was overloaded"


def test_a_test_does_not_wait_when_the_time_of_the_run_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(UNTIL, "1")
    with ExitStack() as turns:
        for _ in range(FEWEST + 1):
            turns.enter_context(turn(tmp_path, lambda: True))


def test_waiting_is_outside_the_limit_for_one_test_and_inside_the_lock_for_tests_that_must_be_alone(
    pytestconfig: pytest.Config,
) -> None:
    """In the other order, tests could hold all turns while they wait for a test that needs one."""
    implementations = pytestconfig.pluginmanager.hook.pytest_runtest_protocol.get_hookimpls()
    outermost_first = [implementation.plugin_name for implementation in reversed(implementations)]
    names = ("tests.machine_lock", "tests.machine_overload", "timeout")
    assert [name for name in outermost_first if name in names] == list(names)
