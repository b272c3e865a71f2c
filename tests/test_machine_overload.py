"""Tests begin one after the other on a machine that is overloaded."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from tests.machine_overload import turn
from tests.sandbox_count import FEWEST
from tests.workflows.waiting import until


def overloaded() -> bool:
    """Say that the machine is overloaded."""
    return True


async def test_a_few_tests_begin_on_an_overloaded_machine_and_the_next_waits_until_one_ends(tmp_path: Path) -> None:
    measured = threading.Event()
    begun = threading.Event()

    def is_overloaded() -> bool:
        if measured.is_set():  # the second time, so all turns were taken the first time
            waited.set()
        measured.set()
        return True

    def begin() -> None:
        with turn(tmp_path, is_overloaded, poll_seconds=0.01):
            begun.set()

    waited = threading.Event()

    async def has_waited() -> bool:
        return waited.is_set()

    async def has_begun() -> bool:
        return begun.is_set()

    with ThreadPoolExecutor() as threads, ExitStack() as turns:
        for _ in range(FEWEST - 1):
            turns.enter_context(turn(tmp_path, overloaded))
        with turn(tmp_path, overloaded):
            threads.submit(begin)
            await until(has_waited)
            assert not begun.is_set()
        await until(has_begun)


def test_all_tests_begin_at_once_on_a_machine_that_is_not_overloaded(tmp_path: Path) -> None:
    with ExitStack() as turns:
        for _ in range(FEWEST + 1):
            turns.enter_context(turn(tmp_path, lambda: False))


async def test_a_test_that_waits_begins_when_the_machine_is_not_overloaded_any_more(tmp_path: Path) -> None:
    answers = iter([True, True, False])
    with ExitStack() as turns:
        for _ in range(FEWEST):
            turns.enter_context(turn(tmp_path, overloaded))
        with turn(tmp_path, lambda: next(answers), poll_seconds=0.0):
            assert next(answers, None) is None, "it began while the machine was overloaded"
