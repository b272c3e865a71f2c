"""What many threads ask for at once is asked in one call."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from activities.ec2.request_batching import Batcher


class Window:
    """Stands for the time that a batch is open: until so many have asked."""

    def __init__(self, batcher_full: threading.Event) -> None:
        self.full = batcher_full

    def __call__(self, _: float) -> None:
        assert self.full.wait(30)


def asked_together(names: list[str], most: int, fails: bool = False) -> tuple[list[list[str]], list[str | None]]:
    """The calls that were made for threads that ask while a batch is open, and what the threads got."""
    calls: list[list[str]] = []
    arrived = threading.Semaphore(0)
    everyone = threading.Event()

    def ask(items: Sequence[str]) -> Mapping[str, str]:
        calls.append(list(items))
        if fails:
            raise ValueError("no answer")
        return {item: item.upper() for item in items if item != "unknown"}

    batcher: Batcher[str, str] = Batcher(ask, window=0.1, most=most, sleep=Window(everyone))

    def get(name: str) -> str | None:
        arrived.release()
        return batcher.get(name)

    with ThreadPoolExecutor(len(names)) as threads:
        waiting = [threads.submit(get, name) for name in names]
        for _ in names:
            arrived.acquire()
        while sum(len(one.items) for one in [batcher._open] if one) < len(set(names)) and most > len(names):
            pass
        everyone.set()
        return calls, [each.result() for each in waiting]


def test_aws031_descriptions_are_asked_for_together() -> None:
    calls, got = asked_together(["a", "b", "unknown", "c"], most=100)
    assert calls == [["a", "b", "c", "unknown"]]
    assert got == ["A", "B", None, "C"]


def test_a_call_takes_no_more_than_it_may() -> None:
    names = [f"i-{number}" for number in range(10)]
    calls, got = asked_together(names, most=4)
    assert max(map(len, calls)) <= 4
    assert sorted(item for call in calls for item in call) == names
    assert got == [name.upper() for name in names]


def test_an_error_reaches_all_who_asked() -> None:
    with pytest.raises(ValueError, match="no answer"):
        asked_together(["a", "b"], most=100, fails=True)
