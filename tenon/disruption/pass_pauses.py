"""How long passes for moves rest, so that they use a tenth of a core at most, and a hundredth at rest (DIS-39).

Workers and the model of `tenon shadow` follow the same pauses, so that both look for moves equally often.
"""

from __future__ import annotations

from datetime import timedelta

PASS_SECONDS = 10.0
"""Seconds between two passes, as in Karpenter."""
BUSY_PAUSE_FACTOR = 10.0
"""A pass is followed by a pause of this many times its CPU time: passes may use 10 % of a core."""
PAUSE_FACTOR = 100.0
"""After a round of passes that found nothing, the same until something changes that may let a pass find more (DIS-39).
Passes over a cluster at rest use 1 % of a core.
"""
MAX_PAUSE = 300.0
SETTLE_STEP = timedelta(seconds=30)
"""A round waits while more nodes become due within so short a time of each other (`settles_at`)."""
MAX_SETTLE = 60.0
"""Seconds after which a round begins although more nodes become due: in a busy cluster, that never ends."""


def pause_after(computed: float) -> float:
    """Return the seconds from the end of a pass, which took this CPU time, to the next one."""
    return min(MAX_PAUSE, max(PASS_SECONDS, BUSY_PAUSE_FACTOR * computed))


def rest_after(computed: float) -> float:
    """Return the seconds that passes rest after a round that found nothing and took this CPU time (DIS-39)."""
    return min(MAX_PAUSE, max(PASS_SECONDS, PAUSE_FACTOR * computed))
