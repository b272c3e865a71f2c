"""How many sandboxes a machine gets, and how patient its tests are."""

from __future__ import annotations

import pytest

from tests.machine_speed import MAX_SLOWNESS, REFERENCE_SECONDS, slowness
from tests.sandbox_count import FEWEST, sandbox_count


@pytest.mark.parametrize(
    ("cores", "times_slower", "memory", "expected"),
    [
        (2, 1.0, 24, 7),
        (2, 1.5, 24, 5),
        (2, 3.0, 24, FEWEST),
        (2, 0.5, 24, 7),
        (8, 1.0, 64, 28),
        (8, 1.0, 16, 8),
        (1, 9.0, 2, FEWEST),
    ],
)
def test_a_slow_machine_or_one_with_little_memory_gets_fewer(
    cores: int, times_slower: float, memory: float, expected: int
) -> None:
    assert sandbox_count(cores, times_slower * REFERENCE_SECONDS, memory) == expected


def test_a_machine_with_slow_memory_gets_fewer() -> None:
    assert sandbox_count(2, REFERENCE_SECONDS, 24, memory_slowness=1.4) == 5
    assert sandbox_count(2, REFERENCE_SECONDS, 24, memory_slowness=9.0) == FEWEST


def test_waits_are_never_shorter_than_written_and_end() -> None:
    assert 1.0 <= slowness() <= MAX_SLOWNESS
