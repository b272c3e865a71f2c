"""Prints how many sandboxes a test run should have on this machine at the same time.

Tests on a sandbox mostly wait, so several of them share a core. With too many for the speed of the machine, each test
waits for the processor instead of for the product, and leases and timeouts of the product run out.
"""

from __future__ import annotations

import os

from tests.machine_speed import REFERENCE_SECONDS, mean_loop_seconds, memory_slowness

PER_CORE = 3.5
"""Sandboxes for each core of a machine that is as fast as `tests.machine_speed` expects, and does nothing else.

With 2.5, two cores were idle for up to 40 % of the time, with 3.5 for 14 %. With more, tests wait for the processor
when the machine becomes slow in the middle of a run.
"""
FEWEST = 3
GIB_EACH = 2.0
"""A sandbox, its worker and its test process take about 1.3 GiB; tests that start a second worker take more."""


def sandbox_count(cores: int, loop_seconds: float, memory_gib: float, memory_slowness: float = 1.0) -> int:
    """Return how many sandboxes fit. ``loop_seconds`` and ``memory_slowness``: as `tests.machine_speed` measures."""
    speed = min(1.0, REFERENCE_SECONDS / loop_seconds, 1.0 / memory_slowness)
    return max(FEWEST, min(round(PER_CORE * cores * speed), int(memory_gib / GIB_EACH)))


def main() -> None:
    """Measure this machine, and print the number."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    print(sandbox_count(os.cpu_count() or 1, mean_loop_seconds(), memory, memory_slowness()))


if __name__ == "__main__":
    main()
