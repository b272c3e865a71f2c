"""How slow the machine of a test run is, compared with the one that `REFERENCE_SECONDS` was measured on.

The same loop takes up to five times as long in other hours of one virtual machine, when others use its host, and longer
next to a busy neighbour. A run counts its sandboxes and the bounds of its waits by it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

REFERENCE_SECONDS = 0.09
"""What the loop takes on a machine that counts as 1."""
LOOP = 1_000_000
MEAN_OF = 20
"""How many loops `mean_loop_seconds` takes by default."""
FEW = 3
"""How many loops `slowness` takes."""
MAX_SLOWNESS = 5.0
MEMORY = 2**30
"""How many bytes `memory_slowness` uses for a moment: about as many as a sandbox."""
PAGE = 4096
MEMORY_REFERENCE_SECONDS = 2.0
"""What they take at most on a machine that counts as 1. It took 1 s in a good hour, and 6 s in a bad one."""


def slowness() -> float:
    """Return how many times longer this machine takes now: from 1 to `MAX_SLOWNESS`. Measuring takes a moment."""
    return min(max(1.0, mean_loop_seconds(FEW) / REFERENCE_SECONDS), MAX_SLOWNESS)


def memory_slowness() -> float:
    """Return how many times longer new memory takes than on a machine that counts as 1: at least 1.

    The host of a virtual machine may provide pages slowly. Loops that stay in the processor's cache do not show it.
    """
    began = time.perf_counter()
    memory = bytearray(MEMORY)
    memory[::PAGE] = bytes(MEMORY // PAGE)  # one byte in each page, so that the machine has to provide it
    return max(1.0, (time.perf_counter() - began) / MEMORY_REFERENCE_SECONDS)


def patiently(seconds: float) -> Iterator[None]:
    """Yield for so many seconds, and for more if the machine is slow when they are over."""
    began = time.monotonic()
    while time.monotonic() < began + seconds:
        yield
    end = began + seconds * slowness()
    while time.monotonic() < end:
        yield


def mean_loop_seconds(loops: int = MEAN_OF) -> float:
    """Return how long the loop takes, also while it waits for a processor that others use."""
    began = time.perf_counter()
    for _ in range(loops):
        _once()
    return (time.perf_counter() - began) / loops


def _once() -> None:
    total = 0
    for number in range(LOOP):
        total += number * number
