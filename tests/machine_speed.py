"""How slow the machine of a test run is, compared with the one that `REFERENCE_SECONDS` was measured on.

The processor time of the same loop differs by a factor of five between hours of one virtual machine, when others use
its host. A run counts its sandboxes and the bounds of its waits by it.
"""

from __future__ import annotations

import time

REFERENCE_SECONDS = 0.09
"""What the loop takes on a machine that counts as 1."""
LOOP = 1_000_000
MEAN_OF = 20
"""How many loops `mean_loop_seconds` takes."""
MAX_SLOWNESS = 5.0


def slowness() -> float:
    """Return how many times longer this machine takes now: from 1 to `MAX_SLOWNESS`. Measuring takes a moment."""
    return min(max(1.0, loop_seconds() / REFERENCE_SECONDS), MAX_SLOWNESS)


def loop_seconds() -> float:
    """Return the processor time of the loop, the least of three attempts."""
    return min(_once() for _ in range(3))


def mean_loop_seconds() -> float:
    """Return how long the loop takes over some seconds, also while it waits for a processor that others use."""
    began = time.perf_counter()
    for _ in range(MEAN_OF):
        _once()
    return (time.perf_counter() - began) / MEAN_OF


def _once() -> float:
    began = time.process_time()
    total = 0
    for number in range(LOOP):
        total += number * number
    return time.process_time() - began
